#!/usr/bin/env bash
# Kills or cuts off hosts and processes during sweeps on a testbed:
#   testbed/sweep_kills.sh COMMAND [STRIKES [FOLDER]]
# COMMAND is the `syncline` to verify. A sweep runs on 4 hosts with 0.2 ms each way, in turn with
# every MPI of the machine (Open MPI 5, from make mpi-wheels, with --with-ft ulfm), in one pass of
# 20 iterations, in 8 or 38 passes of 40, or in 4 passes of 1000. At a random time a random host is
# killed or cut off, or a random process is killed: STRIKES times (50 by default). After each of
# them:
#
#   the processes    of the sweep end within 3 s (SYNCLINE_TIMEOUT is 1 s), and the launcher ends
#   the exit code    is not 0
#   a message        of another member names the rank that is lost, always after a cut, and after
#                    the death of a process under Open MPI 5. After other deaths the launcher ends
#                    the job, mostly before a member can print anything (counted)
#   the output       does not exist, nor does a folder OUTPUT.syncline
#   the next run     for the same output succeeds, has the bits of one process, leaves no hidden
#                    file, and prints which files of the ended run it has removed
#
# A strike after the end of the run does not count. FOLDER gets strikes.tsv, one line for each
# strike, and the messages of all processes. The death of a host takes the daemon of Open MPI 5 with
# it, whose launcher then exits with 0 (README.md): for these strikes the code is not checked.
# Exit code: 0 passed, or skipped with a reason; 1 failed.
set -euo pipefail
syncline=$(realpath "${1:?the command to verify}")
strikes=${2:-50}
name=${SYNCLINE_TESTBED:-sweep-kills-$$}
limit=3000
parent=${SWEEP_DATA:-/var/tmp}
# shellcheck source=four-hosts.sh
. "$(dirname "${BASH_SOURCE[0]}")/four-hosts.sh"
keep=${3:-$folder/keep}
build_for openmpi openmpi5 mpich
((${#mpis[@]})) || exit 0

data=$folder/data out=$folder/out.npy
"$syncline" gen lk23 "$data" --rows 512 --cols 4096 >/dev/null
for iterations in 2 20 300 1500 4000; do
	"$syncline" run lk23 "$data" --iterations "$iterations" --output "$folder/right-$iterations.npy" --quiet >/dev/null
done
mkdir -p "$keep"
printf '#strike\tmpi\thow\tdepth\tafter_ms\tprocesses_ms\tlauncher_ms\tcode\tnamed_by\tleft\tleft_then\tverdict\n' >"$keep/strikes.tsv"

# run MPI HOSTS SILENCE FOLDER ARGS...: runs the command with these arguments. The output of each
# rank goes to files in FOLDER, that of the launcher to FOLDER/launcher.
run() {
	local mpi=$1 hosts=$2 silence=$3 into=$4 shim extra=()
	shift 4
	shim=$(echo "$folder/$mpi"/*.so)
	[ "$mpi" != openmpi5 ] || extra=(--launcher --with-ft --launcher ulfm)
	rm -rf "$into"
	mkdir -p "$into"
	testbed run --mpi "$mpi" --hosts "$hosts" --env SYNCLINE_MPI="$shim" --env SYNCLINE_TIMEOUT="$silence" --timeout 60 \
		--output "$into" "${extra[@]}" "$syncline" "$@" >"$into/launcher" 2>&1
}

hidden() { find "$folder" -maxdepth 1 \( -name '.out.npy*' -o -name 'out.npy.syncline*' \) -printf '%f '; }

# pause MILLISECONDS
pause() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }

# members: prints the processes of the sweep, without launchers and shells.
members() {
	local pid
	for pid in $(pgrep -f "run lk23 $data"); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != syncline ] || echo "$pid"
	done
}

# named RANK FOLDER: prints a message of another member that names the rank as lost.
named() {
	local file
	for file in "$2"/[0-9].err; do
		[ "$file" = "$2/$1.err" ] || grep -aE "^(error|syncline): .*rank $1('s process has| has not been heard of| has left| is dead|\) has not)" "$file"
	done | sort | head -n 1 || true
}

# What names the lost in a message of a launcher.
lost_node='Remote host: +[^ ]+|Peer host: +[^ ]+|lost communication|Remote daemon: .*|EXIT CODE: [0-9]+|on node [^ ]+ exited on signal [0-9]+|exited on signal [0-9]+|Node: .*|daemon.*lost|KILLED BY SIGNAL|connection .*closed|assert'

failed=0 passed=0 missed=0 leaving=0 slowest=0 unnamed=0
ways=(kill cut process)
# Iterations of a pass, iterations, and the milliseconds within which the strike falls; a run of 20
# iterations may end before it.
shapes=("20 20 600" "40 300 2500" "40 1500 5000" "1000 4000 5000")
for ((n = 0; passed + failed < strikes && missed <= strikes; n++)); do
	mpi=${mpis[n % ${#mpis[@]}]}
	how=${ways[(n / ${#mpis[@]}) % 3]}
	read -r depth iterations within <<<"${shapes[RANDOM % ${#shapes[@]}]}"
	victim=h$((RANDOM % 4))
	wanted=$((RANDOM % within))
	into=$keep/$n-$mpi-$how
	problems=()
	run "$mpi" 4 1000 "$into" run lk23 "$data" --iterations "$iterations" --depth "$depth" --output "$out" --memory 1G &
	job=$!
	for ((wait = 0; wait < 600; wait++)); do
		[ -z "$(hidden)" ] || break
		kill -0 "$job" 2>/dev/null || break
		sleep 0.05
	done
	pause "$wanted"
	rank=${victim#h}
	if [ "$how" = process ]; then
		victim=$(members | shuf -n 1)
		rank=$(tr '\0' '\n' 2>/dev/null <"/proc/$victim/environ" | sed -n 's/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=//p' || true)
	fi
	what="strike $n, $mpi, $how $([ "$how" = process ] && echo "of rank $rank" || echo "$victim") after $wanted ms"
	what+=", $iterations iterations by $depth"
	struck=$(date +%s%N)
	case $how in
	process) [ -z "$victim" ] || kill -9 "$victim" 2>/dev/null || victim= ;;
	*) testbed "$how" "$victim" >/dev/null 2>&1 || problems+=("$how $victim failed") ;;
	esac
	while [ -n "$(members)" ] && kill -0 "$job" 2>/dev/null; do sleep 0.02; done
	ended=$((($(date +%s%N) - struck) / 1000000))
	code=0
	wait "$job" || code=$?
	took=$((($(date +%s%N) - struck) / 1000000))
	[ "$how" != cut ] || testbed mend "$victim" >/dev/null
	left=$(hidden)
	remain=$(members | wc -l)

	if [ -e "$out" ] && cmp -s "$out" "$folder/right-$iterations.npy"; then
		echo "missed  $what: the output is complete, exit code $code, hidden files: $(wc -w <<<"$left")"
		missed=$((missed + 1))
		rm -rf "$out" "$folder"/.out.npy* "$into"
		continue
	fi
	by=none
	told=$(named "$rank" "$into")
	if [ -n "$told" ]; then
		by=syncline
	else
		told=$(grep -ahoE "$lost_node" "$into/launcher" | sort -u | head -n 1 || true)
		[ -z "$told" ] || by=launcher
	fi
	[ "$code" != 0 ] || [ "$mpi-$how" = openmpi5-kill ] || problems+=("exit code 0")
	[ "$code" != 124 ] || problems+=("the others hang")
	[ -n "$victim" ] || problems+=("the run has ended before it")
	[ "$ended" -le "$limit" ] || problems+=("the processes end after $ended ms")
	[ "$remain" = 0 ] || problems+=("$remain processes remain")
	case $how-$mpi-$by in
	*-syncline) ;;
	cut-* | process-openmpi5-*) problems+=("no process names what is lost") ;;
	*) unnamed=$((unnamed + 1)) ;;
	esac
	[ ! -e "$out" ] || problems+=("the output exists, and is not the result")
	[ ! -e "$out.syncline" ] || problems+=("$out.syncline exists")

	code_then=0
	run openmpi 2 10000 "$into-next" run lk23 "$data" --iterations 2 --output "$out" || code_then=$?
	left_then=$(hidden)
	said=$(grep -ac '^note: removed .*which a killed run has left' "$into-next/0.err" || true)
	[ "$code_then" = 0 ] || problems+=("the next run: exit code $code_then: $(tail -qn 1 "$into-next"/*.err "$into-next/launcher" | tr '\n' ' ')")
	cmp -s "$out" "$folder/right-2.npy" || problems+=("the next run: other bits")
	[ -z "$left_then" ] || problems+=("after the next run: $left_then")
	[ "$said" = "$(wc -w <<<"$left")" ] || problems+=("the next run prints $said of $(wc -w <<<"$left") removed files")
	rm -f "$out" "$folder"/.out.npy*

	[ "$ended" -le "$slowest" ] || slowest=$ended
	count=$(wc -w <<<"$left")
	[ "$count" = 0 ] || leaving=$((leaving + 1))
	if ((${#problems[@]})); then
		failed=$((failed + 1))
		verdict=$(printf '%s; ' "${problems[@]}")
		echo "FAILED  $what: $verdict"
		tail -n 3 "$into"/*.err "$into/launcher"
	else
		passed=$((passed + 1)) verdict=ok
		rm -rf "$into-next"
		echo "ok      $what: exit code $code, processes end after $ended ms, launcher after $took; $by: $told; hidden files left: $count"
	fi
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$n" "$mpi" "$how" "$iterations/$depth" "$wanted" "$ended" "$took" "$code" "$by" \
		"$count" "$(wc -w <<<"$left_then")" "$verdict" >>"$keep/strikes.tsv"
done
echo "$((passed + failed)) strikes: $passed passed, $failed failed, $missed too late; the slowest end after $slowest ms; $leaving runs left" \
	"hidden files, which the next run removed; $unnamed runs were ended by launchers before \`syncline\` named the lost"
[ "$failed" = 0 ] && [ "$missed" -le "$strikes" ]
