#!/bin/sh
# Everything that must hold, stage by stage: one line each with its time, the log of one that fails, and a last line
# `N passed, N failed`, which counts single tests where a stage tells them, and the stage otherwise.
# `scripts/test.sh STAGE...` runs only those. TEST_LOGS=FOLDER keeps the logs of all of them there.
set -eu
cd "$(dirname "$0")/.."

stages="setup wire build rust bench fuzz simulation spec"
# Beside the Rust tests, which mostly wait, two lanes run, each one stage after the other. These wait for no clock but
# their own: they take what the others leave of the processors.
idle="fuzz simulation spec"
# And these wait for the servers of other services, and judge no time.
nice="bench"

stage_setup() { scripts/setup.sh; }
stage_wire() { cargo xtask wire --check; }
# Every crate's tests but the simulator's, in one build, with what a client's application may observe: other features, or
# other packages at a time, would compile most of it again. Where XDP can be built it is: then the data plane is also
# loaded into this kernel, and real processes, killed and paused, have the switch at the hook. The core's decisions are
# tested once more as those have it who build without.
# --show-output: a test that skips itself says so, and the summary below repeats it.
stage_build() { tests --no-run && without_xdp --no-run; }
# Twice as many at a time as there are processors: most of them wait for a clock or for another process.
stage_rust() {
	export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"
	tests --no-fail-fast -- --show-output --skip bench_ && without_xdp -- --show-output
}
stage_bench() { tests --test bench -- --show-output; }
tests() {
	# shellcheck disable=SC2046 # flags
	cargo test --workspace --exclude wayside-sim $(with_xdp wayside-daemon wayside-demo wayside-soak) \
		$(with_peers wayside-daemon) --features wayside-client/metrics,wayside-client/otel --quiet "$@"
}
# Of the same packages as the others, so that what others wrote is not compiled for it once more.
without_xdp() {
	# shellcheck disable=SC2046 # flags
	cargo test --workspace --exclude wayside-sim $(with_peers wayside-daemon) \
		--features wayside-client/metrics,wayside-client/otel --quiet --test cases "$@"
}
# A short run of every fuzzing target, with the same seed every time: that they build, and hold, and reach what they
# should.
stage_fuzz() { FUZZ_SEED=1 FUZZ_DIR=$logs/found scripts/fuzz.sh 20000; }
# Seeds hold, and with any one rule broken on purpose they do not. And the program does as the tests do, for seeds that
# they have not: of locks so many that it fails, too, if a fault, an outcome or a line of the decision table is missing.
stage_simulation() {
	cargo test --profile simulation --quiet -p wayside-sim --features mutants --no-fail-fast -- --show-output &&
		for batch in "lock 400..10400" "chain 400..420" "queue 400..420"; do
			cargo run --profile simulation --quiet -p wayside-sim --features mutants -- --service "${batch% *}" \
				--seeds "${batch#* }" || return 1
		done
}
stage_spec() { spec/run.sh ci; }

# cargo's flags for XDP; where it can't be built none, and a line that says so.
with_xdp() {
	scripts/xdp.sh "$@" 2>"$logs/xdp-$stage"
	sed 's/^/skipped: XDP: /' "$logs/xdp-$stage" >&2
}

# The same for the lock services that Wayside is compared with.
with_peers() {
	scripts/peers.sh "$@" 2>"$logs/peers-$stage"
	sed 's/^/skipped: other lock services: /' "$logs/peers-$stage" >&2
}

if [ -n "${TEST_LOGS:-}" ]; then
	mkdir -p "$TEST_LOGS"
	logs=$(cd "$TEST_LOGS" && pwd)
	export TEST_LOGS="$logs"
else
	logs=$(mktemp -d)
	trap 'rm -rf "$logs"' EXIT
fi
passed=0 failed=0

run() {
	stage=$1 log=$logs/$1
	[ ! -t 1 ] || printf '%-11s ...\r' "$stage"
	begun=$(date +%s)
	status=0
	("stage_$stage") >"$log" 2>&1 </dev/null || status=$?
	seconds=$(($(date +%s) - begun))
	good=$(counted passed "$log") bad=$(counted failed "$log")
	if [ "$status" = 0 ] && [ "$bad" = 0 ]; then
		[ "$good" != 0 ] || good=1
		printf '%-11s ok      %4d s  %d passed\n' "$stage" "$seconds" "$good"
	else
		[ "$bad" != 0 ] || bad=1
		printf '%-11s FAILED  %4d s  %d failed\n' "$stage" "$seconds" "$bad"
		# Of cargo's logs, what the failed tests said; of others, the end.
		awk '/^failures:$/ { shown = 1 } /^test result/ { shown = 0 } shown || /^error/' "$log" >"$log.failures"
		[ -s "$log.failures" ] || tail -n 100 "$log" >"$log.failures"
		sed 's/^/    /' "$log.failures"
	fi
	sed -nE 's/^ *((skipped|late): .*)/    \1/p' "$log" | sort -u
	passed=$((passed + good)) failed=$((failed + bad))
}

# Sum of the numbers before `passed` or `failed` in lines such as cargo's and our own scripts' results.
counted() {
	grep -E '[0-9]+ passed[,;] [0-9]+ failed' "$2" | grep -oE "[0-9]+ $1" | awk '{ sum += $1 } END { print sum + 0 }'
}

# Begins a lane: stages beside another one, in a run of this script of its own. Unlike others in the background it ends
# when somebody interrupts this one.
#   begin LANE STAGE...
begin() {
	lane=$1
	shift
	case $lane in
	idle) how="chrt -i 0" && chrt -i 0 true 2>/dev/null || how="nice -n 19" ;;
	nice) how="nice -n 5" ;;
	esac
	# shellcheck disable=SC2086 # a command
	env --default-signal=INT,QUIT $how scripts/test.sh "$@" >"$logs/lane-$lane" 2>&1 &
}

# Ends it: what it says comes now.
#   end LANE PROCESS
end() {
	status=0
	wait "$2" || status=$?
	sed '$d' "$logs/lane-$1"
	sed -n '$p' "$logs/lane-$1" >"$logs/sums"
	good=$(counted passed "$logs/sums") bad=$(counted failed "$logs/sums")
	[ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1
	passed=$((passed + good)) failed=$((failed + bad))
}

# Those of these stages that are wanted.
#   among STAGE...
among() {
	for stage; do
		case $wanted in *" $stage "*) printf '%s ' "$stage" ;; esac
	done
}

# The Rust tests, and both lanes.
run_with_lanes() {
	idlers=$(among $idle) nicer=$(among $nice)
	# shellcheck disable=SC2086 # stages
	[ -z "$idlers" ] || { begin idle $idlers && idle_lane=$!; }
	# shellcheck disable=SC2086 # stages
	[ -z "$nicer" ] || { begin nice $nicer && nice_lane=$!; }
	run rust
	[ ! -t 1 ] || printf '%s ...\r' "$nicer$idlers"
	[ -z "$nicer" ] || end nice "$nice_lane"
	[ -z "$idlers" ] || end idle "$idle_lane"
}

wanted=" ${*:-$stages} "
for stage in $wanted; do
	case "$wanted/$stage" in
	*" rust "*/rust) run_with_lanes ;;
	*" rust "*/bench | *" rust "*/fuzz | *" rust "*/simulation | *" rust "*/spec) ;;
	*) run "$stage" ;;
	esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
