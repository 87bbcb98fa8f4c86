#!/bin/sh
# What a reviewer should not have to say. Silent, unless there is something.
set -eu
cd "$(dirname "$0")/.."

cargo fmt --all --check -- --color never
# What is compiled with XDP only, or with other lock services' clients, where it can be; and with what applications observe.
features=$(scripts/xdp.sh wayside-daemon wayside-demo wayside-soak 2>/dev/null && scripts/peers.sh wayside-daemon 2>/dev/null)
# shellcheck disable=SC2086 # flags
cargo clippy --workspace --all-targets $features --features wayside-client/metrics,wayside-client/otel --quiet -- -D warnings
cargo clippy --workspace --all-targets --quiet -- -D warnings
# Without the example cargo leaves out what dev-dependencies want of others, and checks a score of them again.
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --lib --bins --example acquires --quiet

# Scripts parse, and say how they fail.
for script in $(git ls-files '*.sh' .ci/run); do
	bash -n "$script"
	grep -q '^set -eu' "$script" || { echo "$script: no set -eu" >&2; exit 1; }
done

# Comments in 120 columns, which rustfmt leaves alone (STYLE.md).
wide=$(git ls-files '*.rs' '*.c' '*.h' | grep -v '^wire/' | LC_ALL=C.UTF-8 xargs grep -nE '^.{121,}$' |
	grep -E ':[0-9]+:[[:space:]]*(//|/?\*)' | sed 's/^\([^:]*:[0-9]*\):.*/\1: a comment of more than 120 columns/') || true
[ -z "$wide" ] || { echo "$wide" >&2; exit 1; }

# Files that fit in a head (STYLE.md). Generated files and tables of cases may be longer.
long=$(git ls-files '*.rs' '*.c' '*.h' '*.tla' '*.sh' '*.py' | grep -v '^wire/' | while read -r file; do
	lines=$(wc -l <"$file")
	[ "$lines" -le 900 ] || echo "$file: $lines lines, see STYLE.md"
done)
[ -z "$long" ] || { echo "$long" >&2; exit 1; }
