#!/bin/sh
# Runs `syncline-lab bench rma` between hosts with a known delay (testbed/README.md; needs root): 2,
# 3, 4, 6 and 8 hosts with 200 us each way, 8 with 1 ms, and for the combined barrier 2 and 4 hosts
# with two processes each, or with processes of 2 and 4 threads. The output of a run, one JSON
# object per line, goes to FOLDER/rma-HOSTSxPROCESSESxTHREADS-DELAYus.jsonl, and its messages to
# standard error.
#
#   lab/scripts/rma_testbed.sh SYNCLINE_LAB FOLDER [ROUNDS]
#
# RMA_MPI: openmpi (default), openmpi5, mpich, mpich5. RMA_RUNS: the runs, instead of all:
# "HOSTS:PER-HOST:DELAY:ONLY:THREADS ...". RMA_UNDER: a command under which everything runs, such as
# `chrt -r 1` where other work keeps the cores busy; MPIs that wait without yielding (MPICH) cannot
# be compared then.
set -eu
[ $# -ge 2 ] || { echo "usage: lab/scripts/rma_testbed.sh SYNCLINE_LAB FOLDER [ROUNDS]" >&2; exit 2; }
lab=$(realpath "$1")
folder=$2
rounds=${3:-15}
here=$(dirname "$(realpath "$0")")
mkdir -p "$folder"
SYNCLINE_TESTBED=${SYNCLINE_TESTBED:-rma}
export SYNCLINE_TESTBED
testbed=$here/../../testbed/testbed
trap '"$testbed" down >/dev/null 2>&1 || true' EXIT
for run in ${RMA_RUNS:-2:1:200: 3:1:200: 4:1:200: 6:1:200: 8:1:200: 8:1:1000: 2:2:200:barrier 4:2:200:barrier 2:1:200:barrier:2 2:1:200:barrier:4 \
	4:1:200:barrier:2 2:2:200:barrier:2}; do
	hosts=${run%%:*} rest=${run#*:}
	each=${rest%%:*} rest=${rest#*:}
	delay=${rest%%:*} rest=${rest#*:}:
	only=${rest%%:*} rest=${rest#*:}
	threads=${rest%%:*}
	"$testbed" down >/dev/null 2>&1 || true
	"$testbed" up --hosts "$hosts" --delay-us "$delay" >&2
	to=$folder/rma-${hosts}x${each}x${threads:=1}-${delay}us.jsonl
	# Open MPI 4 chooses another component for windows by default, which cannot create them between
	# hosts over TCP.
	case ${RMA_MPI:-openmpi} in openmpi) windows='--launcher --mca --launcher osc --launcher pt2pt' ;; *) windows= ;; esac
	# Calls of MPI block for longer than the default timeout of a silent host.
	if ! ${RMA_UNDER:-} "$testbed" run --mpi "${RMA_MPI:-openmpi}" --per-host "$each" $windows --env SYNCLINE_TIMEOUT=60000 \
		--env SYNCLINE_THREADS="$threads" --timeout "${RMA_TIMEOUT:-300}" "$lab" bench rma --json --rounds "$rounds" ${only:+--only "$only"} >"$to.part"; then
		echo "failed: $run" >&2
	fi
	mv "$to.part" "$to"
	echo "$to: $(grep -c '"record":"cell"' "$to" || true) cells" >&2
done
