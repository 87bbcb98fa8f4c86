#!/usr/bin/env bash
# Where the instructions of a lock that nobody else wants go: step by step, file by file, and of the core in C stage by
# stage. The example `uncontended` of crates/protocol, a node and the switch's core in one process, under valgrind's
# callgrind, for one and for three rounds: the difference, by the locks of two rounds, is what a lock takes, without what
# starts and ends.
#   scripts/profile.sh             two to three minutes, most of it for building; docs/profiles.md has what comes out
# Half of the locks are taken one by one, half in packets of 32; `both` is one of either. All of the core is inlined
# into one function: which of its own an instruction is of, its line tells.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "valgrind is not installed" >&2; exit 1; }
target=${CARGO_TARGET_DIR:-target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build --release --quiet -p wayside-protocol --example uncontended
for rounds in 1 3; do
    valgrind --quiet --tool=callgrind --compress-pos=no --callgrind-out-file="$work/$rounds" \
        "$target/release/examples/uncontended" "$rounds" >"$work/said"
done

# A line of costs is of the file and the function named last; one after `calls=` is of what was called, all in all.
# Before these the sources of the core are read: from one function's first line to the next one's.
awk -v locks=3200 '
    function named(text,    id) {
        match(text, /\([0-9]+\)/)
        id = kind substr(text, RSTART, RLENGTH)
        if (length(text) > RSTART + RLENGTH) names[id] = substr(text, RSTART + RLENGTH + 1)
        return names[id]
    }
    function source(path) {
        return path ~ /(dataplane|wire\/gen)\/[^\/]*\.[ch]$/ ? substr(path, match(path, /[^\/]*$/)) : ""
    }
    # Of a function of the core. Whoever reads a field of a packet mostly checks it, whoever loads a word decides by it.
    function stage(name) {
        if (name ~ /_at$|^ws_(find_slot|expect|globals)/) return "finds region, node and slot"
        if (name ~ /_set_|^ws_store|^ws_(answer_with|show_slot|wish|make_)/) return "rewrites the packet"
        if (name ~ /^ws_(header|entry|load|check|packet_bytes|count_fits|is_|admits|charge|serves|lease_runs|node_)/)
            return "checks"
        if (name ~ /^ws_(to_|answer_holder|decide|process|drop)/) return "says where it is to go"
        if (name ~ /^ws_(judge|dispatch|on_lock|on_request|on_change|on_fabric)$/) return "finds what has to be done"
        if (name == "ws_count") return "counts"
        return name == "" ? "elsewhere" : "decides and compares-and-swaps"
    }
    FILENAME ~ /\.[ch]$/ {
        if (FNR == 1) { within = ""; base = source(FILENAME) }
        if (/^[A-Za-z].*ws_[a-z0-9_]+\(/ && !/;$/) {
            match($0, /ws_[a-z0-9_]+\(/)
            within = substr($0, RSTART, RLENGTH - 1)
        }
        inside[base, FNR] = within
        next
    }
    FNR == 1 { sign = sign ? 1 : -1 }
    /^f[lie]=/ { kind = "file"; file = named(substr($0, 4)); next }
    /^fn=/ { kind = "function"; of = named(substr($0, 4)); next }
    /^c(fi|fl|fn|ob)=/ { kind = /^cfn/ ? "function" : "file"; if (!/^cob/) named(substr($0, index($0, "=") + 1)); next }
    /^calls=/ { called = 1; next }
    /^[0-9+*-]/ {
        cost = sign * $2
        all[of] += cost
        if (!called) {
            own[file] += cost; sum += cost
            base = source(file)
            if (base != "") { of_stage[stage(inside[base, $1])] += cost; inlined[inside[base, $1]] += cost }
        }
        called = 0
    }
    function home(path) {
        if (match(path, /wire\/gen\/.*/)) return substr(path, RSTART)
        if (match(path, /(dataplane|crates\/[a-z]+\/(src|examples))\/.*/)) return substr(path, RSTART)
        if (path ~ /rustc|library\/(core|alloc|std)|hashbrown/) return "the Rust library"
        return "the C library, and others"
    }
    END {
        locks *= 2
        for (name in all) if (match(name, /step_[a-z_]+|World::decide|ws_process|Switch::view/)) step[substr(name, RSTART, RLENGTH)] += all[name]
        for (name in step) if (step[name] / locks >= 0.5) printf "step %-58s %7.0f\n", name, step[name] / locks
        for (path in own) of_home[home(path)] += own[path]
        for (place in of_home) if (of_home[place] / locks >= 0.5) printf "file %-58s %7.0f\n", place, of_home[place] / locks
        for (name in of_stage) if (of_stage[name] / locks >= 0.5) printf "core %-58s %7.0f\n", name, of_stage[name] / locks
        for (name in inlined) if (inlined[name] / locks >= 9.5) printf "core, %-57s %7.0f\n", name, inlined[name] / locks
        printf "both %-58s %7.0f\n", "", sum / locks
    }
' dataplane/*.h dataplane/native.c wire/gen/wire.h "$work/1" "$work/3" | sort -k1,1r -k3,3nr
