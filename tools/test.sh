#!/usr/bin/env bash
# Runs the tests of a tier, and prints what failed, what was skipped, and the counts and the seconds
# of each part.
#   tools/test.sh quick   make test: the products, with fixed seeds and the tools of this machine
#   tools/test.sh full    make test-full: every test, with fixed seeds
#   tools/test.sh soak    make soak: every test, with 20 times the cases and random seeds
#   tools/test.sh times [TIER]   make test-times: the slowest 30 tests, and all programs of tests,
#                         of the last run of a tier, quick if none is named
# tools/testkit/src/tier.rs says what a tier is. The output of all parts is in target/tests/TIER.
# Exit code: 0 all passed; 1 some failed; 2 a wrong call, or another run of the tier goes on; 130 it
# was interrupted.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
target=${CARGO_TARGET_DIR:-$PWD/target}
cargo=${CARGO:-cargo}
# Relative to this folder.
runner="target.'cfg(all())'.runner='tools/run-tests.sh'"

# Shows the programs, their counts and the failures of a log that grows.
progress() {
    grep --line-buffered -E '^ +(Running|Doc-tests|Compiling syncline|Finished) |^test result:|FAILED|^error: (test|doctest|could)|^python: |^ok  |^skipped: |^[0-9]+ (passed|failed)' |
        sed -u "s/^/$1: /"
}

# part NAME COMMAND...: runs a command, and keeps its output, its status and its seconds. The output
# goes to a file, which a process that a test leaves behind may keep open: a pipe would not end.
part() {
    local name=$1 log=$results/$1.log shell=$BASHPID TIMEFORMAT='%R %U %S' follower
    shift
    echo "---- $name"
    : >"$log"
    tail -n +1 -f --pid="$shell" "$log" > >(progress "$name") 2>/dev/null 9<&- &
    follower=$!
    { time "$@" >"$log" 2>&1 9<&-; } 2>"$results/$name.time"
    echo $? >"$results/$name.status"
    sleep 1 # until the end of the file is shown
    kill "$follower"
    wait "$follower" 2>/dev/null
}

# beside COMMAND...: runs a command in the background, in a process group of its own, which an
# interrupt of this script ends.
beside() {
    set -m
    "$@" &
    set +m
    groups+=("-$!")
}

# Waits for the end of all commands in the background. A trap does not wait for them.
ends() {
    wait
    groups=()
}
groups=()
trap '[ ${#groups[@]} = 0 ] || kill -- "${groups[@]}" 2>/dev/null; exit 130' INT TERM HUP

# alone NAME COMMAND...: runs a part beside no other.
alone() {
    beside part "$@"
    ends
}

build() { "$cargo" test "${profile[@]}" "${packages[@]}" --no-run; }
tests() { "$cargo" --config "$runner" test "${profile[@]}" "$@" --tests --no-fail-fast -- --show-output "${which[@]}"; }
# With a runner, all documentation tests of a crate would run in one process. So they have none.
docs() { "$cargo" test "${profile[@]}" "${packages[@]}" --doc --no-fail-fast -- --show-output; }

# option OPTION FOLDER...: prints an option of cargo for the package of each folder.
option() {
    local option=$1
    shift
    local manifests=("${@/%//Cargo.toml}")
    sed -sn "0,/^name = /s/^name = \"\(.*\)\"/$option \1/p" "${manifests[@]}"
}

# shellcheck disable=SC2046
crates() { tests $(option -p crates/*); }
# shellcheck disable=SC2046
others() {
    case $tier in
    quick) tests $(option -p apps/* bindings/*) ;;
    # All other packages, so that a new one is not forgotten.
    *) tests --workspace $(option --exclude crates/*) ;;
    esac
}
python() { bindings/python/test.sh run "$tier"; }

# Runs the parts of the tests that no other call of this function has taken, the longest first.
lane() {
    local name
    for name in others crates python docs; do
        ! mkdir "$results/$name.taken" 2>/dev/null || part "$name" "$name"
    done
}

# Prints the counts of cargo, and those of pytest ("12 passed, 1 skipped in 3.45s").
counts() {
    awk -v failed="$1" '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
         /^[0-9]+ (passed|failed|skipped|error).* in [0-9.]+s/ {
             for (i = 2; i <= NF; i++) {
                 if ($i ~ /^passed/) passed += $(i - 1)
                 if ($i ~ /^(failed|error)/) failed += $(i - 1)
                 if ($i ~ /^skipped/) skipped += $(i - 1)
             }
         }
         END { printf "%d passed, %d failed, %d skipped", passed, failed, skipped }' "${@:2}"
}

# Prints the output of failed tests, without backtraces. That of tests that passed precedes it in a
# log and is left out.
failures() {
    local log
    awk '/^successes:$/ { failures = 0 } /^failures:$/ { failures = 1; said = 0 } /^test result:/ { failures = said = 0 }
         failures && /^---- .* stdout ----$/ { said = 40 }
         /^ +[0-9]+: |^ +at / { next }
         said > 0 { print substr($0, 1, 400); said-- }' "$@"
    # What cargo says of programs that do not compile, and of those that a signal has ended. The log
    # of the documentation has examples that must not compile.
    for log in "$@"; do
        [[ $log == */docs.log ]] || grep -hE -A 5 '^error\[E[0-9]+\]: ' "$log"
    done
    grep -hE '^test .* FAILED|^(FAILED|ERROR) |^python: FAILED|^error: (test|doctest|could|failed)|^  process did' "$@" | sort -u
}

summary() {
    local parts=() logs name status wall user system broken=0
    for name in tools build crates others docs python models demo testbed; do
        [ -e "$results/$name.log" ] && parts+=("$name")
    done
    logs=("${parts[@]/#/$results/}")
    logs=("${logs[@]/%/.log}")
    echo "---- $tier"
    # What is built is built for these parts (tools/features.py), so that none compiles it again. In
    # soak the demo has another profile.
    [ "$tier" = soak ] || sed -n 's/^ *Compiling \([^ ]*\) .*/compiled again: \1/p' "$results"/{crates,others,demo}.log 2>/dev/null | sort -u
    grep -hE '^(skipped|missing|not installed):' "${logs[@]}" | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /'
    failures "${logs[@]}"
    for name in "${parts[@]}"; do
        read -r wall user system <"$results/$name.time"
        printf '%-7s %5.0f s, %5.0f s of processor time: %s\n' "$name" "$wall" \
            "$(awk "BEGIN { print $user + $system }")" "$(counts 0 "$results/$name.log")"
        status=$(cat "$results/$name.status" 2>/dev/null || echo none)
        if [ "$status" != 0 ]; then
            failed=1
            # A part that has failed without a test that has counts as one.
            [[ "$(counts 0 "$results/$name.log")" != *" 0 failed"* ]] || ((broken++))
            echo "FAILED: $name, exit code $status; its output: $results/$name.log"
        fi
    done
    echo "$tier: $SECONDS s"
    counts "$broken" "${logs[@]}"
    echo
}

# The slowest tests, and the time of each program of tests.
times() {
    local logs=("$target/tests/$1/crates.log" "$target/tests/$1/others.log")
    [ -e "${logs[0]}" ] || { echo "${logs[0]}: there is no run of this tier" >&2 && exit 2; }
    awk '/^ +Running / { program = $NF; gsub(/.*\/|-[0-9a-f]+\)$/, "", program) }
         /^test .* <[0-9.]+s>/ { time = $NF; gsub(/[<s>]/, "", time); printf "%9.2f s  %s %s\n", time, program, $2 }' "${logs[@]}" |
        sort -rn | head -n 30
    awk '/^ +Running / { program = $NF; gsub(/.*\/|-[0-9a-f]+\)$/, "", program) }
         /^test result:/ { time = $NF; sub(/s$/, "", time); printf "%9.2f s  %s: %d tests\n", time, program, $4 + $6 }' "${logs[@]}" | sort -rn
}

tier=${1:-quick}
packages=()
which=()
case $tier in
quick) ;;
full | soak)
    packages=(--workspace)
    # Roles are processes of other tests: they do nothing by themselves.
    which=(--include-ignored --skip role_of_a_process)
    ;;
times) times "${2:-quick}" && exit 0 ;;
*) echo "tools/test.sh quick|full|soak|times" >&2 && exit 2 ;;
esac
profile=()
[ "$tier" != soak ] || profile=(--release)
[ "$tier" != full ] || which+=(--skip soak_)
results=$target/tests/$tier
mkdir -p "$results"
# Two runs of a tier would write the same files. The lock ends with the processes of this script.
exec 9<"$results"
flock -n 9 || { echo "$results: another run of this tier is writing it" >&2 && exit 2; }
rm -rf "${results:?}"/*
export SYNCLINE_TESTS=$tier
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(nproc)}
# As in the Makefile.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
make=(make --no-print-directory TIER="$tier")
failed=0

alone tools "${make[@]}" test-deps
alone build build
# The models only compute, while tests often wait: they run in the time that the tests leave.
[ "$tier" = quick ] || beside part models nice -n 19 make --no-print-directory loom
# Tests often wait, and a program of tests ends with its slowest one. So two parts run at a time,
# each with as many threads as there are processors.
beside lane
beside lane
ends
if [ "$tier" != quick ]; then
    alone demo "${make[@]}" demo
    # The hosts of a testbed, if root can create them; otherwise the script prints the reason.
    alone testbed "${make[@]}" testbed-test MPIS=openmpi KILLS=4
fi
summary
exit "$failed"
