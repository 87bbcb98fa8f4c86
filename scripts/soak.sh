#!/bin/sh
# Real processes under faults, for as long as you like: `scripts/soak.sh --seconds 600 --hook`; flags are wayside-soak's.
# As root. Histories are judged at the end, by Porcupine too where there is Go.
set -eu
cd "$(dirname "$0")/.."

[ "$(id -u)" = 0 ] || { echo "soak: network namespaces need root" >&2; exit 1; }
features=$(scripts/xdp.sh wayside-daemon wayside-soak)
# shellcheck disable=SC2086 # flags
cargo build --release --quiet -p wayside-daemon -p wayside-soak $features
target=${CARGO_TARGET_DIR:-target}/release
if command -v go >/dev/null; then
	output=$(realpath "$target")/wayside-porcupine
	(cd crates/soak/porcupine && go build -o "$output" .)
fi
exec "$target/wayside-soak" "$@"
