#!/bin/sh
# Fuzzes what strangers may send: `scripts/fuzz.sh [TARGET] [INPUTS]`, all targets and 200,000 inputs each by default,
# and a line a target with how many it ran. Guided by coverage (libFuzzer, clang's; Rust is stable, with LLVM's
# instrumentation), beginning with crates/fuzz/corpus/TARGET; new finds are left in $FUZZ_DIR, an input that fails under
# cargo's target directory, and so are the finds by default.
#   FUZZ_SEED=1 scripts/fuzz.sh        the same inputs again
#   scripts/fuzz.sh minimise TARGET    the corpus, with what was found, as few files as cover the same
#   scripts/fuzz.sh one TARGET FILE    one input again
#   scripts/fuzz.sh run TARGET INPUTS  without a build
set -eu
cd "$(dirname "$0")/.."

targets="native wire node controller records settings lines hand-over faults"
clang=$(command -v clang-19 || command -v clang) || { echo "skipped: fuzzing: no clang" && exit 0; }
runtime=$("$clang" -print-file-name="libclang_rt.fuzzer-$(uname -m).a")
[ -e "$runtime" ] || runtime=$("$clang" -print-file-name=libclang_rt.fuzzer.a)
[ -e "$runtime" ] || { echo "skipped: fuzzing: $clang has no libFuzzer (libclang-rt-19-dev)" && exit 0; }

built=${CARGO_TARGET_DIR:-target}/fuzz
mkdir -p "$built"
built=$(realpath "$built")
found=${FUZZ_DIR:-$built/found}
mkdir -p "$found"

build_native() {
	"$clang" -std=gnu11 -g -O2 -Wall -Wextra -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		dataplane/native.c crates/fuzz/native.c -o "$built/native"
}

# The flags of instrumentation are rustc's own way to LLVM's, and stable; the linker brings libFuzzer. They are for the
# code of this repository alone, and for the target's: all that is counted is looked through after every input. What the
# simulator compares, times of its own for the most part, no byte of an input is like.
build_rust() {
	host=$(rustc -vV | sed -n 's/^host: //p')
	llvm=
	for option in level=4 inline-8bit-counters pc-table; do
		llvm="$llvm -Cllvm-args=-sanitizer-coverage-$option"
	done
	cat >"$built/rustc" <<-END
		#!/bin/sh
		compares=-Cllvm-args=-sanitizer-coverage-trace-compares
		case " \$* " in *" --crate-name wayside_sim "*) compares= ;; esac
		case " \$* " in *" --target "*) exec "\$@" -Cpasses=sancov-module$llvm \$compares ;; esac
		exec "\$@"
	END
	chmod +x "$built/rustc"
	RUSTC_WORKSPACE_WRAPPER="$built/rustc" RUSTFLAGS="-Clinker=$clang -Clink-arg=-fsanitize=fuzzer" \
		CARGO_TARGET_DIR="$built" cargo build --quiet --profile fuzzing --target "$host" -p wayside-fuzz --features libfuzzer
	ln -sf "$host/fuzzing/wayside-fuzz" "$built/rust"
}

build() {
	case $1 in
	native) build_native ;;
	*) build_rust ;;
	esac
}

# Runs a target's program with these arguments.
program() {
	target=$1
	shift
	case $target in
	native) ASAN_OPTIONS=malloc_context_size=0:quarantine_size_mb=1 "$built/native" "$@" ;;
	*) WAYSIDE_FUZZ=$target "$built/rust" "$@" ;;
	esac
}

# Commands fit into 400 bytes by the dozen, and sequences that are longer make slow inputs; so do more than 16 faults.
# One that takes 20 s is a loop without an end.
fuzz() {
	case $1 in
	wire | settings | lines) longest=2048 ;;
	faults) longest=84 ;;
	*) longest=400 ;;
	esac
	# How often a world's life comes by somewhere says nothing; nor is a shorter one quicker, or to be tried first.
	case $1 in faults) guided="-use_counters=0 -len_control=0" ;; *) guided= ;; esac
	mkdir -p "$found/$1"
	begun=$(date +%s)
	# shellcheck disable=SC2086 # flags
	if ! program "$1" $guided -runs="$2" -seed="${FUZZ_SEED:-0}" -max_len="$longest" -timeout=20 -rss_limit_mb=2048 -verbosity=0 \
		-reload=0 -print_funcs=0 -print_final_stats=1 -artifact_prefix="$built/failed-$1-" "$found/$1" "crates/fuzz/corpus/$1" \
		>"$found/$1.log" 2>&1; then
		grep -a -v '^ \{4,\}at /rustc' "$found/$1.log" | tail -n 60
		echo "$1: failed; once more: scripts/fuzz.sh one $1 $(sed -n 's/.*written to //p' "$found/$1.log")"
		return 1
	fi
	ran=$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$1.log")
	echo "$1: $ran inputs in $(($(date +%s) - begun)) s"
	[ "$1" != native ] || reaches_everything
}

# A corpus that reaches little would pass whatever is broken: every outcome and every drop must be in it, but those that
# take a second processor, or the hook.
reaches_everything() {
	unseen=$(FUZZ_UNSEEN=1 program native -runs=0 crates/fuzz/corpus/native 2>&1 | sed -n 's/^unseen: //p' |
		grep -vxE 'not_granted|handed_up|handed_up_lost') || return 0
	echo "native: the corpus never reaches" $unseen
	return 1
}

case ${1:-} in
minimise)
	build "$2"
	rm -rf "$found/$2.least"
	mkdir -p "$found/$2" "$found/$2.least"
	program "$2" -set_cover_merge=1 -use_counters=0 -max_len=2048 "$found/$2.least" "crates/fuzz/corpus/$2" \
		"$found/$2" >"$found/$2.log" 2>&1
	# What failed once has a name of its own, with a hyphen, and stays. The others have a part of their hashes.
	find "crates/fuzz/corpus/$2" -type f ! -name '*-*' -delete
	for input in "$found/$2.least"/*; do
		mv "$input" "crates/fuzz/corpus/$2/$(basename "$input" | cut -c1-12)"
	done
	;;
one)
	build "$2"
	program "$2" "$3"
	;;
run)
	fuzz "$2" "$3"
	;;
*)
	# A number alone is the count.
	case ${1:-} in
	[0-9]*) inputs=$1 ;;
	?*) targets=$1 inputs=${2:-200000} ;;
	*) inputs=200000 ;;
	esac
	case $targets in native | native\ *) build_native ;; esac
	[ "$targets" = native ] || build_rust
	# One on each processor: the others' output is in files.
	for target in $targets; do echo "$target"; done |
		xargs -P "$(getconf _NPROCESSORS_ONLN)" -I TARGET scripts/fuzz.sh run TARGET "$inputs"
	;;
esac
