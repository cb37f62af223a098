#!/usr/bin/env bash
# Runs the tests of a tier, and prints what failed, what was skipped, and the counts and the seconds
# of each part.
#   tools/test.sh quick   make test: the products, with fixed seeds and the tools of this machine
#   tools/test.sh full    make test-full: every test, with fixed seeds
#   tools/test.sh soak    make soak: every test, with 20 times the cases and random seeds
#   tools/test.sh times [TIER]   make test-times: the slowest 30 tests, and all programs of tests,
#                         of the last run of a tier, quick if none is named
# tools/testkit/src/tier.rs says what a tier is. The output of all parts is in target/tests/TIER.
# Exit code: 0 all passed; 1 some failed; 2 a wrong call.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
target=${CARGO_TARGET_DIR:-$PWD/target}
cargo=${CARGO:-cargo}
runner="target.'cfg(all())'.runner=['$PWD/tools/run-tests.sh']"
parts=()
failed=0

# Shows the programs, their counts and the failures of a log that grows.
progress() {
    grep --line-buffered -E '^ +(Running|Doc-tests|Compiling syncline|Finished) |^test result:|FAILED|^error: (test|doctest|could)|^python: |^ok  |^skipped: |^[0-9]+ (passed|failed)'
}

# part NAME COMMAND...: runs a command, and keeps its output, its status and its seconds. The output
# goes to a file, which a process that a test leaves behind may keep open: a pipe would not end.
part() {
    local name=$1 log=$results/$1.log TIMEFORMAT='%R %U %S' status follower
    shift
    parts+=("$name")
    echo "---- $name"
    : >"$log"
    tail -n +1 -f "$log" > >(progress) 2>/dev/null &
    follower=$!
    { time "$@" >"$log" 2>&1; } 2>"$results/$name.time"
    status=$?
    sleep 1 # until the end of the file is shown
    kill "$follower"
    wait "$follower" 2>/dev/null
    ended "$name" "$status"
}

# ended NAME STATUS: remembers a part that failed.
ended() {
    [ "$2" = 0 ] && return
    failed=1
    echo "FAILED: $1, exit code $2; its output: $results/$1.log"
}

build() { "$cargo" test "${packages[@]}" --no-run; }
tests() { "$cargo" --config "$runner" test "${packages[@]}" --tests --no-fail-fast -- --show-output "${which[@]}"; }
# With a runner, all documentation tests of a crate would run in one process. So they have none.
docs() { "$cargo" test "${packages[@]}" --doc --no-fail-fast -- --show-output; }

# Prints the counts of cargo, and those of pytest ("12 passed, 1 skipped in 3.45s").
counts() {
    awk '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
         /^[0-9]+ (passed|failed|skipped|error).* in [0-9.]+s/ {
             for (i = 2; i <= NF; i++) {
                 if ($i ~ /^passed/) passed += $(i - 1)
                 if ($i ~ /^(failed|error)/) failed += $(i - 1)
                 if ($i ~ /^skipped/) skipped += $(i - 1)
             }
         }
         END { printf "%d passed, %d failed, %d skipped", passed, failed, skipped }' "$@"
}

# Prints the output of failed tests, without backtraces. That of tests that passed precedes it in a
# log and is left out.
failures() {
    awk '/^successes:$/ { failures = 0 } /^failures:$/ { failures = 1; said = 0 } /^test result:/ { failures = said = 0 }
         failures && /^---- .* stdout ----$/ { said = 40 }
         /^ +[0-9]+: |^ +at / { next }
         said > 0 { print substr($0, 1, 400); said-- }' "$@"
    grep -hE '^test .* FAILED|^(FAILED|ERROR) |^python: FAILED|^error: (test|doctest|could)' "$@" | sort -u
}

summary() {
    local logs=("${parts[@]/#/$results/}") name wall user system
    logs=("${logs[@]/%/.log}")
    echo "---- $tier"
    grep -hE '^(skipped|missing|not installed):' "${logs[@]}" | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /'
    failures "${logs[@]}"
    for name in "${parts[@]}"; do
        read -r wall user system <"$results/$name.time"
        printf '%-7s %5.0f s, %5.0f s of processor time: %s\n' "$name" "$wall" \
            "$(awk "BEGIN { print $user + $system }")" "$(counts "$results/$name.log")"
    done
    echo "$tier: $SECONDS s"
    counts "${logs[@]}"
    echo
}

# The slowest tests, and the time of each program of tests.
times() {
    local log=$target/tests/$1/tests.log
    [ -e "$log" ] || { echo "$log: there is no run of this tier" >&2 && exit 2; }
    awk '/^ +Running / { program = $NF; gsub(/.*\/|-[0-9a-f]+\)$/, "", program) }
         /^test .* <[0-9.]+s>/ { time = $NF; gsub(/[<s>]/, "", time); printf "%9.2f s  %s %s\n", time, program, $2 }' "$log" |
        sort -rn | head -n 30
    awk '/^ +Running / { program = $NF; gsub(/.*\/|-[0-9a-f]+\)$/, "", program) }
         /^test result:/ { time = $NF; sub(/s$/, "", time); printf "%9.2f s  %s: %d tests\n", time, program, $4 + $6 }' "$log" | sort -rn
}

tier=${1:-quick}
packages=()
which=()
case $tier in
quick)
    # Tests often wait, so that more of them than there are processors run at a time. In the full
    # tier, models take the time that tests leave.
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
    ;;
full)
    packages=(--workspace)
    # Roles are processes of other tests: they do nothing by themselves.
    which=(--include-ignored --skip role_of_a_process --skip soak_)
    ;;
soak)
    packages=(--workspace --release)
    which=(--include-ignored --skip role_of_a_process)
    ;;
times) times "${2:-quick}" && exit 0 ;;
*) echo "tools/test.sh quick|full|soak|times" >&2 && exit 2 ;;
esac
results=$target/tests/$tier
rm -rf "$results"
mkdir -p "$results"
export SYNCLINE_TESTS=$tier
# What the compiler could keep for the next change costs a tenth of its time.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
make=(make --no-print-directory TIER="$tier")

part tools "${make[@]}" test-deps
part build build
models=
if [ "$tier" != quick ]; then
    # The models only compute, while tests often wait: they run in the time that the tests leave.
    { TIMEFORMAT='%R %U %S'; time nice -n 19 make --no-print-directory loom >"$results/models.log" 2>&1; } 2>"$results/models.time" &
    models=$!
    trap 'pkill -P "$models"; kill "$models"' INT TERM
fi
part tests tests
part docs docs
part python bindings/python/test.sh run "$tier"
if [ -n "$models" ]; then
    wait "$models"
    parts+=(models)
    ended models $?
    part demo "${make[@]}" demo-for-tests
    # The hosts of a testbed, if root can create them; otherwise the script prints the reason.
    part testbed "${make[@]}" testbed-test MPIS=openmpi KILLS=4
fi
summary
exit "$failed"
