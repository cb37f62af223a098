#!/usr/bin/env bash
# Tests the testbed itself (make testbed-test): testbed/test.sh [MPI]..., with every MPI of the
# machine, or those named. Times are reported, not judged.
# Exit code: 0 passed, or skipped with a reason; 1 failed.
# shellcheck disable=SC2015 # in `A && good || bad` good never fails
set -euo pipefail
mpis=("$@")
[ $# -gt 0 ] || mpis=(openmpi mpich openmpi5 mpich5)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=test-$$
testbed() { timeout -k 10 120 "$here/testbed" --name "$name" "$@"; }
failed=0
good() { echo "ok      $1"; }
bad() {
	echo "FAILED  $1"
	failed=1
}

[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces need root"; exit 0; }
folder=$(mktemp -d)
begun=""
# shellcheck disable=SC2317 # called by trap
over() {
	trap '' INT TERM
	[ -z "$begun" ] || timeout 60 "$here/testbed" --name "$name" down
	rm -rf "$folder"
}
trap over EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

begun=1 code=0
testbed up --hosts 4 --delay-us 200 >"$folder/up" 2>&1 || code=$?
if [ "$code" = 2 ]; then
	echo "skipped: $(cat "$folder/up")"
	exit 0
fi
cat "$folder/up"
[ "$code" = 0 ] || exit 1
testbed status

# ---- hosts ----

! testbed up >/dev/null 2>&1 && good "a second one of the same name is refused" || bad "a second one of the same name"
here_too=$(readlink /proc/self/ns/net)
seen=$(for h in h0 h1 h2 h3; do testbed exec $h readlink /proc/self/ns/net; done; echo "$here_too")
[ "$(sort -u <<<"$seen" | wc -l)" = 5 ] && good "networks differ" || bad "networks: $seen"
seen=$(for h in 0 1 2 3; do testbed exec $h hostname; done)
[ "$(sort -u <<<"$seen" | wc -l)" = 4 ] && good "names differ" || bad "names: $seen"
code=0
testbed exec h1 sh -c 'exit 7' || code=$?
[ "$code" = 7 ] && good "exec hands on the exit code" || bad "exec gave $code"

first_of() { testbed exec "$1" sh -c "ip -br -4 addr show eth0" | awk '{sub("/.*", "", $3); print $3}'; }
there() { timeout 5 "$here/testbed" --name "$name" exec h0 "${SYNCLINE_TESTBED_BUILD:-$here/../target/testbed}/rtt" "$target" 2 >/dev/null; }
target=$(first_of h1)
there && good "h0 reaches h1" || bad "h0 does not reach h1"
testbed cut h1
! there && good "a host that is cut off is not reached" || bad "a host that is cut off is reached"
testbed mend h1
there && good "a mended one is" || bad "a mended one is not reached"

testbed exec h2 sleep 300 &
waiting=$!
sleep 0.5
testbed kill h2
code=0
wait "$waiting" || code=$?
[ "$code" != 0 ] && good "kill ends what runs on a host" || bad "sleep outlived kill"
testbed exec h2 true && good "a killed host can be used again" || bad "a killed host is gone"

# ---- programs ----

busy() { # counts processes of programs and launchers on all hosts
	testbed status | awk '/processes [0-9]+/ { for (i = 1; i < NF; i++) if ($i == "processes") n += $(i + 1) } END { print n + 0 }'
}
free() { # WHAT: checks that nothing is left running
	[ "$(busy)" = 0 ] && ! compgen -G "/run/syncline-testbed/$name/run.*" >/dev/null && good "$1 leaves nothing behind" || bad "$1 leaves something behind: $(testbed status)"
}

cat >"$folder/lines" <<'END'
#!/bin/bash
for ((i = 0; i < 300; i++)); do printf 'line %s %080d\n' "$i" 0; done
[ ! -t 0 ] && [ -z "$(cat)" ] || echo stdin
END
cat >"$folder/hang" <<'END'
#!/bin/bash
echo begun
sleep 300 & sleep 300
END
cat >"$folder/fails" <<'END'
#!/bin/bash
[ "${GIVEN-}" = "a b" ] || exit 4
exit 3
END
chmod +x "$folder"/*

for mpi in "${mpis[@]}"; do
	code=0
	testbed mpicc --mpi "$mpi" -O2 -Wall -o "$folder/pingpong" "$here/pingpong.c" -lpthread >"$folder/cc" 2>&1 || code=$?
	if [ "$code" != 0 ]; then
		grep -q 'not installed' "$folder/cc" && echo "skipped: $(cat "$folder/cc")" || bad "$mpi: $(cat "$folder/cc")"
		continue
	fi
	for per_host in 1 2; do
		code=0
		testbed run --mpi "$mpi" --per-host $per_host --timeout 60 "$folder/pingpong" >"$folder/out" 2>"$folder/err" || code=$?
		[ "$code" = 0 ] && grep -q '^ok$' "$folder/out" && good "$mpi, 4 hosts x $per_host: $(grep -v '^ok$' "$folder/out" | paste -sd ';')" ||
			bad "$mpi, 4 hosts x $per_host: exit code $code; $(cat "$folder/out" "$folder/err")"
	done

	code=0
	testbed run --mpi "$mpi" --hosts 2 --timeout 30 --env "GIVEN=a b" "$folder/fails" >/dev/null 2>&1 || code=$?
	[ "$code" = 3 ] && good "$mpi hands on environment and exit code" || bad "$mpi gave $code for 3"
	rm -rf "$folder/by-rank"
	testbed run --mpi "$mpi" --timeout 30 --output "$folder/by-rank" "$folder/lines" >"$folder/out" 2>&1 || true
	whole=$(cat "$folder"/by-rank/[0-3].out | grep -cE '^line [0-9]+ 0{80}$' || true)
	[ "$whole" = 1200 ] && [ "$(cat "$folder"/by-rank/* | wc -l)" = 1200 ] && good "$mpi: output by ranks" ||
		bad "$mpi: output by ranks has $whole whole lines of 1200: $(ls "$folder/by-rank"; head -c 500 "$folder/out")"
	testbed run --mpi "$mpi" --timeout 30 "$folder/lines" >"$folder/out" 2>/dev/null || true
	[ "$(wc -l <"$folder/out")" = 1200 ] && good "$mpi: output in one, $(grep -cvE '^line [0-9]+ 0{80}$' "$folder/out" || true) of 1200 lines torn" ||
		bad "$mpi: $(wc -l <"$folder/out") lines of 1200"

	code=0
	testbed run --mpi "$mpi" --timeout 2 "$folder/hang" >"$folder/out" 2>/dev/null || code=$?
	[ "$code" = 124 ] && [ "$(grep -c begun "$folder/out")" = 4 ] && good "$mpi: 124 when the time is over" || bad "$mpi: $code when the time is over"
	free "$mpi: a run out of time"
	for signal in INT TERM KILL; do
		# A command that a shell starts in the background ignores SIGINT by default.
		env --default-signal=INT timeout --foreground 60 "$here/testbed" --name "$name" run --mpi "$mpi" "$folder/hang" >"$folder/out" 2>&1 &
		run=$!
		for ((i = 0; i < 100; i++)); do
			[ "$(grep -c begun "$folder/out" || true)" = 4 ] && break
			sleep 0.1
		done
		pkill -$signal -P $run || bad "$mpi: ended before SIG$signal: $(cat "$folder/out")"
		code=0
		{ wait $run; } 2>/dev/null || code=$?
		if [ $signal = KILL ]; then
			sleep 0.5
			[ "$(busy)" = 0 ] && good "$mpi: SIGKILL ends everything" || bad "$mpi: SIGKILL leaves something running"
		else
			free "$mpi: SIG$signal ($code)"
		fi
	done
done

# ---- continuing after a death ----

if testbed mpicc --mpi openmpi5 -O2 -Wall -o "$folder/ulfm" "$here/ulfm.c" >"$folder/cc" 2>&1; then
	code=0
	testbed run --mpi openmpi5 --hosts 3 --timeout 30 --launcher --with-ft --launcher ulfm "$folder/ulfm" >"$folder/out" 2>&1 || code=$?
	[ "$code" = 0 ] && good "openmpi5, ulfm: $(grep '^ok' "$folder/out")" || bad "openmpi5, ulfm: exit code $code; $(cat "$folder/out")"
fi

# ---- the end ----

number=$(cat "/run/syncline-testbed/$name/id")
testbed down
begun=""
left=$(ls -d /run/netns/"sl$number"-* /sys/class/net/"sl$number"-* "/run/syncline-testbed/$name" 2>/dev/null || true)
[ -z "$left" ] && good "nothing is left of it" || bad "left: $left"
[ "$failed" = 0 ] && echo "testbed: all good" || echo "testbed: FAILED"
exit $failed
