#!/usr/bin/env bash
# Mixes the daemon and the nodes of an earlier commit with those of this tree, and upgrades a switch under load; docs/upgrades.md.
#   scripts/upgrade.sh [COMMIT]    COMMIT: by default the one before the last 20
# Builds both in UPGRADE_DIR (a new folder), the earlier one in a worktree there, unless OLD and NEW name programs that are
# built. LEASE is that of the nodes' sessions, SERVING_LEASE that of the post of the pair; TURNS are made between two
# steps. Runs on loopback, in userspace; the standby pair needs etcd, and two commits that know `--etcd`. Minutes, most
# of them for building. Exit status 1: a lock was lost, or two had it, or someone who held it noticed.
set -euo pipefail
cd "$(dirname "$0")/.."

commit=$(git rev-parse --short "${1:-HEAD~20}")
folder=${UPGRADE_DIR:-$(mktemp -d)}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$folder/target}
mkdir -p "$folder"
work=$(mktemp -d)
port=$((20000 + $$ % 10000))
jobs_each=2
holders=()
broken=0

finish() {
    touch "$work/stop" "$work/over"
    jobs -rp | xargs -r kill 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap finish EXIT

build_old() {
    [ -n "${OLD:-}" ] && return
    OLD=$folder/wayside-$commit
    [ -x "$OLD" ] && return
    git worktree add --quiet --detach "$folder/$commit" "$commit"
    (cd "$folder/$commit" && cargo build --quiet --locked -p wayside-daemon)
    mv "$CARGO_TARGET_DIR/debug/wayside" "$OLD"
    git worktree remove --force "$folder/$commit"
}

build_new() {
    [ -n "${NEW:-}" ] && return
    cargo build --quiet --locked -p wayside-daemon
    NEW=$folder/wayside-new
    cp "$CARGO_TARGET_DIR/debug/wayside" "$NEW"
}

fail() { echo "    BROKEN: $*"; broken=1; }

# start PROGRAM PORT FLAGS...: a switch; its process id is `switch`. The lease is for slow machines: whoever is without a
# switch for longer than that loses its locks, as it should.
start() {
    local program=$1 at=$2
    shift 2
    "$program" switch --listen "127.0.0.1:$at" --admin-listen "127.0.0.1:$((at + 1))" --mode userspace --wait block \
        --control-socket "$work/$at.sock" --lease "${LEASE:-15s}" "$@" >>"$work/switch.log" 2>&1 &
    switch=$!
}

serves() { curl -sf --max-time 2 "http://127.0.0.1:$(($1 + 1))/readyz" >/dev/null; }
until_it() { for _ in $(seq 600); do "$@" && return; sleep 0.1; done; fail "not within a minute: $*"; }
stop() { kill -TERM "$1" && wait "$1" || fail "the switch ended with status $?"; }

# One turn of a node that adds 1 to a counter: two at a time would lose one, or find the other's mark.
export TURN='mkdir "$WORK/mark" 2>/dev/null || echo two >>"$WORK/overlaps"
read -r n <"$WORK/counter"; echo $((n + 1)) >"$WORK/counter"; echo "$WAYSIDE_LOCK_TOKEN" >>"$WORK/tokens"; rmdir "$WORK/mark"'
export READ='mkdir "$WORK/reader.$$" && [ ! -d "$WORK/mark" ] || echo two >>"$WORK/overlaps"; rmdir "$WORK/reader.$$"'

# load PROGRAM ENDPOINTS NUMBER: turns until `stop` is there.
load() {
    local status turns=0 failures=0
    until [ -e "$WORK/stop" ]; do
        status=0
        "$1" lock counter --wait 60s --endpoint "$2" -- sh -c "$TURN" 2>>"$WORK/load.log" || status=$?
        if [ "$status" = 0 ]; then turns=$((turns + 1)); else failures=$((failures + 1)); fi
        "$1" lock counter --shared --wait 60s --endpoint "$2" -- sh -c "$READ" 2>>"$WORK/load.log" || failures=$((failures + 1))
    done
    echo "$turns $failures" >"$WORK/load.$3"
}

# hold PROGRAM ENDPOINTS NAME FLAGS...: holds a lock until `over` is there; its file says `held`, then `done`.
hold() {
    "$1" lock "$3" --endpoint "$2" "${@:4}" -- sh -c 'echo held >"$WORK/hold.'"$3"'"; until [ -e "$WORK/over" ]; do sleep 0.05; done
        echo "done" >"$WORK/hold.'"$3"'"' 2>>"$work/load.log" &
    holders+=("$!")
    until_it grep -qs held "$work/hold.$3"
}

# begin TITLE ENDPOINTS PROGRAMS...: the load of nodes of these programs; of each, one that holds and one that shares a lock.
begin() {
    title=$1 endpoints=$2 loads=() nodes=0
    shift 2
    export WORK=$work
    rm -rf "$work"/{stop,over,mark,reader.*,overlaps,tokens,load.*,hold.*}
    echo 0 >"$work/counter"
    touch "$work"/{tokens,overlaps}
    holders=()
    for program; do
        hold "$program" "$endpoints" "held.$nodes"
        hold "$program" "$endpoints" "read.$nodes" --shared
        for _ in $(seq "$jobs_each"); do
            load "$program" "$endpoints" "$nodes" &
            loads+=("$!")
            nodes=$((nodes + 1))
        done
    done
    echo "$title"
}

# Under load for TURNS (100) more turns, however slow the machine is.
go_on() {
    local from
    from=$(wc -l <"$work/tokens")
    has_gone_on() { [ "$(wc -l <"$work/tokens")" -ge $((from + ${TURNS:-100})) ]; }
    until_it has_gone_on
}

# What has been held stays refused to others, then the load ends, and all is counted.
check() {
    local number turns=0 failures=0 undisturbed=0 counted
    for held in "$work"/hold.*; do
        number=0
        "$NEW" lock "${held##*/hold.}" --try --endpoint "$endpoints" -- true 2>/dev/null || number=$?
        [ "$number" = 75 ] || fail "${held##*/hold.} was given to another (status $number)"
    done
    touch "$work/over"
    for pid in "${holders[@]}"; do
        if wait "$pid"; then undisturbed=$((undisturbed + 1)); else fail "a holder ended with status $?"; fi
    done
    for held in "$work"/hold.*; do grep -q 'done' "$held" || fail "${held##*/} did not come to its end"; done
    touch "$work/stop"
    wait "${loads[@]}"
    for number in "$work"/load.[0-9]*; do
        read -r t f <"$number"
        turns=$((turns + t)) failures=$((failures + f))
    done
    read -r counted <"$work/counter"
    [ "$counted" = "$turns" ] || fail "$turns turns, counted $counted"
    [ "$turns" -gt 0 ] || fail "nothing was done"
    [ "$failures" = 0 ] || fail "$failures turns failed: $(tail -1 "$work/load.log")"
    [ ! -s "$work/overlaps" ] || fail "$(wc -l <"$work/overlaps") times two had the lock"
    sort -n -u -c "$work/tokens" 2>/dev/null || fail "tokens did not rise"
    echo "    $turns exclusive turns, as many shared, $undisturbed of ${#holders[@]} holders undisturbed, $failures failed"
}

two_versions() {
    start "$1" "$port" --state-dir "$work/state"
    until_it serves "$port"
    begin "$2" "127.0.0.1:$port" "${@:3}"
    go_on
    check
    stop "$switch"
    rm -rf "$work/state"
}

# let_in SWITCH NODE: lets this host join a switch whose packets are signed.
let_in() {
    local token
    token=$("$1" node token --state-dir "$work/state" | tail -1)
    "$2" node join "$token" >/dev/null || fail "the host can't join"
}

# replace_switch FROM TO TITLE FLAGS...: under load, on the same state directory.
replace_switch() {
    start "$1" "$port" --state-dir "$work/state" "${@:4}"
    until_it serves "$port"
    case "${*:4}" in *"--authentication on"*) let_in "$1" "$OLD" ;; esac
    begin "$3" "127.0.0.1:$port" "$OLD" "$NEW"
    go_on
    stop "$switch"
    start "$2" "$port" --state-dir "$work/state" "${@:4}"
    until_it serves "$port"
    go_on
    check
    stop "$switch"
    rm -rf "$work/state"
}

# The standby first, then who serves, which drains.
replace_pair() {
    if ! command -v etcd >/dev/null; then
        echo "skipped: the pair of switches: etcd is not installed (Debian: etcd-server)"
        return
    elif ! "$OLD" switch --help | grep -q -- --etcd; then
        echo "skipped: the pair of switches: $commit has no --etcd"
        return
    fi
    local client=$((port + 20)) peer=$((port + 21)) pair="127.0.0.1:$port,127.0.0.1:$((port + 10))" one two
    etcd --data-dir "$work/etcd" --log-level fatal --logger zap --listen-client-urls "http://127.0.0.1:$client" \
        --advertise-client-urls "http://127.0.0.1:$client" --listen-peer-urls "http://127.0.0.1:$peer" \
        --initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "default=http://127.0.0.1:$peer" \
        >/dev/null 2>&1 &
    etcd_answers() { curl -sf --max-time 2 "http://127.0.0.1:$client/health" >/dev/null; }
    until_it etcd_answers
    local flags=(--etcd "http://127.0.0.1:$client" --serving-lease "${SERVING_LEASE:-300ms}")
    start "$OLD" "$port" --state-dir "$work/one" "${flags[@]}"
    one=$switch
    until_it serves "$port"
    start "$OLD" $((port + 10)) --state-dir "$work/two" "${flags[@]}"
    two=$switch
    begin "a pair of switches, both upgraded, old and new nodes" "$pair" "$OLD" "$NEW"
    go_on
    stop "$two"
    start "$NEW" $((port + 10)) --state-dir "$work/two" "${flags[@]}"
    two=$switch
    go_on
    stop "$one"
    until_it serves $((port + 10))
    go_on
    start "$NEW" "$port" --state-dir "$work/one" "${flags[@]}"
    one=$switch
    go_on
    check
    stop "$one"
    stop "$two"
    # While etcd is late nobody serves: no session outlives that if it is longer than its lease.
    echo "    etcd was late in $(grep -c 'no answer within' "$work/switch.log" || true) seconds"
}

build_old
build_new
echo "old: $commit, $("$OLD" --version); new: $(git describe --always --dirty), $("$NEW" --version)"
two_versions "$OLD" "an old switch, new nodes" "$NEW"
two_versions "$NEW" "a new switch, old nodes" "$OLD"
two_versions "$OLD" "an old switch, old and new nodes" "$OLD" "$NEW"
two_versions "$NEW" "a new switch, old and new nodes" "$OLD" "$NEW"
replace_switch "$OLD" "$NEW" "a switch that is upgraded, old and new nodes"
replace_switch "$NEW" "$OLD" "a switch that is rolled back, old and new nodes"
export WAYSIDE_CREDENTIALS=$work/credentials.json
replace_switch "$OLD" "$NEW" "a switch that signs and is upgraded, old and new nodes" --authentication on
replace_switch "$NEW" "$OLD" "a switch that signs and is rolled back, old and new nodes" --authentication on
unset WAYSIDE_CREDENTIALS
replace_pair
[ "$broken" = 0 ] || { echo "not as docs/upgrades.md says" >&2; exit 1; }
echo "nothing was lost"
