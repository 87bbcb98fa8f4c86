#!/bin/sh
# Installs what building and testing need and this machine lacks. Says what it does; says nothing where nothing is to do.
#   scripts/setup.sh         everything, or it fails
#   scripts/setup.sh demo    what the demo is better with, the switch at the XDP hook; it runs without, and is told so
set -eu
only=${1:-}
cd "$(dirname "$0")/.."

complain() {
	echo "setup: $*" >&2
	exit 1
}

# Rust is the developer's own choice of toolchain, so it is asked for and not installed.
rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
command -v cargo >/dev/null || complain "cargo is missing: install Rust $rust or later, as https://rustup.rs says"
have=$(rustc --version | cut -d ' ' -f 2)
oldest=$(printf '%s\n%s\n' "$rust" "$have" | sort -V | head -n 1)
[ "$oldest" = "$rust" ] || complain "Rust is $have, $rust or later is needed: rustup update stable"
[ "$only" = demo ] || for component in fmt clippy; do
	cargo $component --version >/dev/null 2>&1 || complain "cargo $component is missing: rustup component add rustfmt clippy"
done

# What must be there, and the Debian package that brings it.
missing=
need() {
	case $1 in
	/*) [ -e "$1" ] ;;
	*) command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
	esac || missing="$missing $2"
}
need cc gcc
need clang-19 clang-19                   # the data plane as BPF
need pkg-config pkg-config
need /usr/include/libelf.h libelf-dev    # libbpf, which loads it
need /usr/include/zlib.h zlib1g-dev
need ip iproute2                         # network namespaces
if [ "$only" != demo ]; then
	need llvm-objdump-19 llvm-19
	need "/usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.fuzzer-$(uname -m).a" libclang-rt-19-dev # fuzzing
	need tshark tshark                       # the Wireshark dissector
	need redis-server redis-server           # compared with, in benchmarks; fencing is tested on it
	initdb=$(find /usr/lib/postgresql -name initdb 2>/dev/null | tail -n 1)
	need "${initdb:-initdb}" postgresql      # fencing is tested on it; compared with
	need etcd etcd-server                    # what standby switches share their records in; compared with
	need protoc protobuf-compiler            # etcd's client in benchmarks is built with it
	need /usr/include/google/protobuf/descriptor.proto libprotobuf-dev
	need /usr/share/java/zookeeper.jar libzookeeper-java # compared with, in benchmarks
	need go golang-go                         # Porcupine, which judges histories
	need jq jq                               # end-to-end tests read -o json
	need ethtool ethtool                     # queues of their interfaces
	need java default-jre-headless           # TLC, which checks spec/
	need mvn maven                           # fetches it
fi
[ -n "$missing" ] || exit 0

# The demo runs without all of this but a compiler; its build says what it lacks.
give_up() {
	[ "$only" != demo ] || ! command -v cc >/dev/null || exit 0
	complain "$*"
}
command -v apt-get >/dev/null || give_up "this is no Debian; install what these packages bring:$missing"
if [ "$(id -u)" != 0 ]; then
	give_up "run: sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing"
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# Packages that were installed to be tested with do not start as services (RUNLEVEL 1).
# shellcheck disable=SC2086 # a list of packages
{ apt-get update -q >/dev/null && RUNLEVEL=1 apt-get install -q -y --no-install-recommends $missing >/dev/null; } ||
	give_up "these packages could not be installed:$missing"
echo "setup: done"
