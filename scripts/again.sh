#!/bin/sh
# Tests of real processes under faults, again and again: what fails once in fifty runs does so here. The machine is as
# busy as you like meanwhile.
#   scripts/again.sh [ROUNDS [FILTER...]]      10 rounds; of those tests whose names have one of the filters in them
#   BUSY=4 scripts/again.sh                    beside so many processes that compute
# A line a round, and in the end which tests failed how often; 1 if one did. TEST_LOGS=FOLDER keeps the logs of rounds
# that failed there.
set -eu
cd "$(dirname "$0")/.."

rounds=${1:-10}
[ $# = 0 ] || shift
busy=${BUSY:-0}
logs=$(mktemp -d)
[ -z "${TEST_LOGS:-}" ] || mkdir -p "$TEST_LOGS"
computing=
trap 'kill $computing 2>/dev/null || true; rm -rf "$logs"' EXIT
trap 'exit 1' INT TERM

again() {
	# shellcheck disable=SC2046 # flags
	cargo test -p wayside-daemon $(scripts/xdp.sh wayside-daemon) --features wayside-client/metrics,wayside-client/otel \
		--test processes "$@"
}

echo 'building'
again --quiet --no-run
for _ in $(seq "$busy"); do
	# Never longer than this script.
	sh -c 'while kill -0 "$0" 2>/dev/null; do :; done' $$ &
	computing="$computing $!"
done
: >"$logs/failed"
for round in $(seq "$rounds"); do
	begun=$(date +%s)
	again -- --test-threads "${RUST_TEST_THREADS:-$((2 * $(nproc)))}" "$@" >"$logs/round" 2>&1 </dev/null || true
	result=$(grep '^test result' "$logs/round") || { tail -n 20 "$logs/round"; exit 1; }
	sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p' "$logs/round" | sort -u >"$logs/names"
	if [ -s "$logs/names" ]; then
		awk '/^failures:$/ { shown = 1 } /^test result/ { shown = 0 } shown' "$logs/round"
		cat "$logs/names" >>"$logs/failed"
		[ -z "${TEST_LOGS:-}" ] || cp "$logs/round" "$TEST_LOGS/round-$round"
	fi
	printf 'round %d of %d: %s passed, %s failed, %d s, load %s\n' "$round" "$rounds" \
		"$(echo "$result" | grep -oE '[0-9]+ passed' | cut -d' ' -f1)" "$(echo "$result" | grep -oE '[0-9]+ failed' | cut -d' ' -f1)" \
		$(($(date +%s) - begun)) "$(cut -d' ' -f1 /proc/loadavg)"
done
if [ -s "$logs/failed" ]; then
	echo 'failed, of how many rounds:'
	sort "$logs/failed" | uniq -c
	exit 1
fi
echo 'no test failed'
