#!/usr/bin/env bash
# Verifies one-sided memory and pools between the hosts of a testbed (make testbed-test):
#   testbed/suite.sh COMMAND [KILLS]...
# COMMAND is the `syncline` to verify. With every MPI of the machine: all operations on 3 and 4
# hosts, and on 2 hosts of two processes; then KILLS times (6 by default) a host is killed or cut
# off in the middle, and the others must name the missing host and end. With Open MPI 5 (make
# mpi-wheels) a process is killed KILLS times, and the others must continue to the end as a smaller
# team.
# Exit code: 0 passed, or skipped with a reason; 1 failed.
set -euo pipefail
syncline=$(realpath "${1:?the command to verify}")
kills=${2:-6}
name=suite-$$
parent=${TMPDIR:-/tmp}
# shellcheck source=four-hosts.sh
. "$(dirname "${BASH_SOURCE[0]}")/four-hosts.sh"
failed=0
bad() {
	echo "FAILED  $1"
	failed=1
}

build_for openmpi mpich

# run MPI HOSTS PER_HOST ARGS...: runs the command with these arguments; its output is in
# $folder/out.
run() {
	local mpi=$1 hosts=$2 each=$3
	shift 3
	local shim
	shim=$(echo "$folder/$mpi"/*.so)
	testbed run --mpi "$mpi" --hosts "$hosts" --per-host "$each" --env SYNCLINE_MPI="$shim" --env SYNCLINE_QUIET=1 \
		--env SYNCLINE_TIMEOUT="$silence" --timeout 120 "$syncline" "$@" >"$folder/out" 2>&1
}

# amid: waits until the run has begun to verify, and then up to a second more.
amid() {
	local wait
	for ((wait = 0; wait < 300; wait++)); do
		grep -qs '^verifying ' "$folder/out" && break
		sleep 0.1
	done
	sleep "0.$((RANDOM % 10))"
}

# All hosts share two cores: a busy host may be silent for long without being dead.
silence=10000
for mpi in "${mpis[@]}"; do
	for shape in "3 1" "4 1" "2 2"; do
		read -r hosts each <<<"$shape"
		for subject in rma farm; do
			code=0
			run "$mpi" "$hosts" "$each" verify "$subject" --rounds 10 || code=$?
			if [ "$code" = 0 ]; then
				echo "ok      $mpi, $hosts hosts of $each: $(grep -h 'rounds ok' "$folder/out" | tail -n 1)"
			else
				bad "$mpi, $hosts hosts of $each, $subject: exit code $code: $(tail -n 3 "$folder/out")"
			fi
		done
	done
done

silence=800
for ((n = 0; n < kills && ${#mpis[@]} > 0; n++)); do
	mpi=${mpis[n % ${#mpis[@]}]}
	victim=h$((RANDOM % 3))
	how=$([ $((RANDOM % 2)) = 0 ] && echo cut || echo kill)
	begun=$(date +%s%N)
	rm -f "$folder/out"
	run "$mpi" 3 1 verify rma --rounds 100000000 &
	job=$!
	amid
	struck=$(date +%s%N)
	testbed "$how" "$victim" >/dev/null 2>&1 || bad "$how $victim"
	code=0
	wait "$job" || code=$?
	took=$((($(date +%s%N) - struck) / 1000000))
	[ "$how" = kill ] || testbed mend "$victim" >/dev/null
	case $code in
	0) bad "$mpi, $how $victim: the run ended well after $(((struck - begun) / 1000000)) ms" ;;
	124) bad "$mpi, $how $victim: the others hang: $(tail -n 3 "$folder/out")" ;;
	*)
		# A launcher that detects a death first ends the job by itself.
		told=$(grep -hoE 'host [0-9]+ \(rank [0-9]+\) has not been heard of|member [0-9]+ has not been heard of|member [0-9]+.s process has died|rank [0-9]+ is dead|member [0-9]+ is dead' "$folder/out" | sort -u | head -n 1 || true)
		[ "$how" = kill ] || [ -n "$told" ] || bad "$mpi, $how $victim: no process names the missing host: $(tail -n 3 "$folder/out")"
		echo "ok      $mpi, $how $victim: ended after $took ms${told:+: $told}"
		;;
	esac
done

# survive ROUNDS: runs on 4 hosts with Open MPI 5, whose job continues after a death.
survive() {
	testbed run --mpi openmpi5 --hosts 4 --env SYNCLINE_MPI="$shim" --env SYNCLINE_QUIET=1 --env SYNCLINE_TIMEOUT="$silence" \
		--timeout 100 --launcher --with-ft --launcher ulfm "$syncline" verify rma --rounds "$1" >"$folder/out" 2>&1
}

# members ROUNDS: prints the processes that verify this number of rounds, without their launchers.
members() {
	local pid
	for pid in $(pgrep -f "syncline verify rma --rounds $1\$"); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != syncline ] || echo "$pid"
	done
}

mpicc=$here/../target/mpi/openmpi5/bin/mpicc
if ! "$syncline" mpi build --mpicc "$mpicc" --into "$folder/openmpi5" >"$folder/built" 2>&1; then
	echo "skipped: Open MPI 5 (make mpi-wheels): $(tail -n 1 "$folder/built")"
	exit "$failed"
fi
shim=$(echo "$folder/openmpi5"/*.so)
# All hosts share two cores, as above, and MPI reports deaths.
silence=10000
for ((n = 0; n < kills; n++)); do
	rounds=$((17 + n))
	rm -f "$folder/out"
	survive "$rounds" &
	job=$!
	amid
	victim=$(members "$rounds" | shuf -n 1)
	kill -9 "$victim" || bad "openmpi5: there is no process to kill"
	code=0
	wait "$job" || code=$?
	if [ "$code" = 0 ] && grep -qs '1 of 4 processes dead, 3 go on' "$folder/out" &&
		grep -qs 'rounds ok, 3 members on 3 hosts' "$folder/out"; then
		echo "ok      openmpi5, a process killed: $(grep -h 'rounds ok' "$folder/out")"
	else
		bad "openmpi5, a process killed: exit code $code: $(tail -n 3 "$folder/out")"
	fi
done
exit "$failed"
