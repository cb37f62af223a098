#!/usr/bin/env bash
# Runs the tests under the conditions of other machines: one mode after the other, with the counts
# of each.
#   testbed/anywhere.sh [MODE...]       all modes but slow and busy, if none is named
#     core      a cgroup of one core, and one processor
#     memory    a cgroup of 4 GiB, without swap
#     always    transparent_hugepage always
#     never     transparent_hugepage never
#     tmpfs     a copy of the working tree in memory, with its target directory and temporary files
#     slow      a cgroup of a quarter of a core: tests that depend on timing fail
#     busy      beside two programs for each processor that only compute, each in a session of its
#               own: a thread that yields for ever keeps others of its session from running
#     bare      an ordinary user, without apt and without the tools that tests use beside Rust:
#               make test, and then as in the other modes; tests print what they skip
#   TESTS="..."    the arguments of cargo test [--workspace]; for example
#                  TESTS="-p syncline-sync --test sync locks"
#   LIMIT=14400    the number of seconds after which a mode is ended
# The output stays in target/anywhere-MODE.log. The script restores all settings that it changes,
# also when it is interrupted.
# It needs root; it supports cgroups of version 1 and 2.
# Exit code: 0 all passed, 1 some failed, 2 the script cannot run here.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
read -r -a tests <<<"${TESTS:---workspace}"
limit=${LIMIT:-14400}
pages=/sys/kernel/mm/transparent_hugepage/enabled
group=syncline-anywhere.$$
work=$(mktemp -d /var/tmp/syncline-anywhere.XXXXXX)
chmod 755 "$work"
before= # the content of `pages`, while it is changed
running=
busy=() # the programs of the mode of that name

say() { printf '%s\n' "anywhere: $*"; }

# Prints the folder of a cgroup with a controller (cpu, memory), which is created if it is missing.
group_of() {
	local controller=$1 root=/sys/fs/cgroup
	if [ -d "$root/$controller" ]; then
		mkdir -p "$root/$controller/$group" && echo "$root/$controller/$group"
	elif grep -qw "$controller" "$root/cgroup.controllers" 2>/dev/null; then
		echo "+$controller" >"$root/cgroup.subtree_control" 2>/dev/null
		mkdir -p "$root/$group" && grep -qw "$controller" "$root/$group/cgroup.controllers" && echo "$root/$group"
	else
		return 1
	fi
}

# shellcheck disable=SC2317,SC2329 # called by the trap
clean() {
	local dir pid
	trap - EXIT INT TERM
	[ -z "$running" ] || kill -TERM -- "-$running" 2>/dev/null
	quiet
	[ -z "$before" ] || echo "$before" >"$pages" 2>/dev/null
	for dir in /sys/fs/cgroup/{cpu,memory}/"$group" /sys/fs/cgroup/"$group"; do
		[ -d "$dir" ] || continue
		for _ in 1 2 3 4 5; do
			while read -r pid; do kill -KILL "$pid" 2>/dev/null; done <"$dir/cgroup.procs"
			sleep 0.2
			rmdir "$dir" 2>/dev/null && break
		done
	done
	mountpoint -q "$work/tmpfs" && umount -l "$work/tmpfs"
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

# Ends the programs of `busy`.
quiet() {
	[ ${#busy[@]} = 0 ] || kill "${busy[@]}" 2>/dev/null
	busy=()
}

# counts NAME STATUS: prints the counts of a log, the tests that failed, and the reasons for skips.
counts() {
	local log=$work/$1.log status=$2
	grep -h '^missing:' "$log" | sed 's/^/    /'
	grep -h '^skipped:' "$log" | sort | uniq -c | sort -rn | sed 's/^/    /'
	# The last lines of make test.
	grep -hE '^quick: |^[0-9]+ passed, ' "$log" | sed 's/^/    /'
	grep -hE '^test .* FAILED$|^error: |^make: \*\*\*' "$log" | sort -u | sed 's/^/    /'
	awk -v mode="$1" -v status="$status" '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
		END { printf "anywhere: %s: %d passed, %d failed, %d ignored, exit code %d\n", mode, passed, failed, ignored, status }' "$log"
	mkdir -p "$here/target" && cp "$log" "$here/target/anywhere-$1.log"
}

# run MODE COMMAND...: runs a command in a process group of its own, so that the whole group can be
# ended.
run() {
	local mode=$1 status
	shift
	say "$mode: $*"
	setsid timeout --kill-after=30 "$limit" "$@" >"$work/$mode.log" 2>&1 </dev/null &
	running=$!
	wait "$running"
	status=$?
	running=
	counts "$mode" "$status"
	[ "$status" = 0 ] || failed="$failed $mode"
}

# in_group MODE FOLDER COMMAND...: runs a command as a member of a cgroup.
# shellcheck disable=SC2016 # for the inner shell
in_group() { run "$1" bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$2" "${@:3}"; }

# All tests, as `make test-full` runs them.
export SYNCLINE_TESTS=full
test_command=(cargo test "${tests[@]}" --no-fail-fast -- --show-output --include-ignored --skip role_of_a_process --skip soak_)

quota() {
	local dir
	dir=$(group_of cpu) || return 1
	if [ -e "$dir/cpu.cfs_quota_us" ]; then
		echo 100000 >"$dir/cpu.cfs_period_us" && echo "$1" >"$dir/cpu.cfs_quota_us" && echo "$dir"
	else
		echo "$1 100000" >"$dir/cpu.max" && echo "$dir"
	fi
}

bounded() {
	local dir
	dir=$(group_of memory) || return 1
	if [ -e "$dir/memory.limit_in_bytes" ]; then
		echo "$1" >"$dir/memory.limit_in_bytes" || return 1
		echo "$1" >"$dir/memory.memsw.limit_in_bytes" 2>/dev/null
	else
		echo "$1" >"$dir/memory.max" || return 1
		echo 0 >"$dir/memory.swap.max" 2>/dev/null
	fi
	echo "$dir"
}

# Copies the files that git tracks in the working tree, and new ones, to a folder.
copy() {
	mkdir -p "$1" && (cd "$here" && git ls-files -z --cached --others --exclude-standard |
		tar -c --null --ignore-failed-read -T - 2>/dev/null) | tar -x -C "$1"
}

# The environment of an ordinary user: a readable toolchain, the system's programs without compilers
# except `cc`, and a folder.
bare() {
	local user=nobody place=$work/bare tool from sysroot
	sysroot=$(rustc --print sysroot) || return 1
	copy "$place/tree"
	mkdir -p "$place/bin" "$place/home" "$place/tmp" "$place/cargo"
	for tool in /usr/bin/* /bin/*; do
		case ${tool##*/} in
		*gcc* | *g++* | *c++* | *clang* | *gfortran* | *fort* | mpi* | *mpi* | python* | valgrind* | pkg-config | cmake | apt* | pip* | strip) ;;
		*) ln -sf "$tool" "$place/bin/" ;;
		esac
	done
	# Rust itself needs a linker.
	ln -sf "$(command -v cc)" "$place/bin/cc"
	# The toolchain itself, not rustup, which looks for toolchains in a home, possibly root's.
	for tool in cargo rustc rustdoc rustfmt; do ln -sf "$place/toolchain/bin/$tool" "$place/bin/$tool"; done
	mkdir "$place/toolchain" && cp -rL "$sysroot/bin" "$sysroot/lib" "$place/toolchain"
	# The downloaded crates, so that no package is fetched twice.
	from=${CARGO_HOME:-$HOME/.cargo}
	[ ! -d "$from/registry" ] || cp -r "$from/registry" "$place/cargo/"
	[ ! -f "$from/config.toml" ] || cp "$from/config.toml" "$place/cargo/"
	chown -R "$user" "$place"
	run bare setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups env -i PATH="$place/bin" \
		HOME="$place/home" CARGO_HOME="$place/cargo" TMPDIR="$place/tmp" CARGO_TARGET_DIR="$place/target" \
		SYNCLINE_TESTS=full NO_INSTALL=1 sh -c 'cd "$0" && make test test-deps && exec "$@"' "$place/tree" "${test_command[@]}"
	rm -rf "$place"
}

mode() {
	local dir
	case $1 in
	core)
		dir=$(quota 100000) || { say "core: skipped: there is no cpu controller of cgroups"; return; }
		in_group core "$dir" taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" "${test_command[@]}"
		;;
	slow)
		dir=$(quota 25000) || { say "slow: skipped: there is no cpu controller of cgroups"; return; }
		in_group slow "$dir" "${test_command[@]}"
		;;
	busy)
		[ "$(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null)" = 1 ] ||
			say "busy: sessions are not scheduled as groups here"
		for _ in $(seq $((2 * $(nproc)))); do
			setsid timeout "$limit" sh -c 'while :; do :; done' &
			busy+=($!)
			disown # its end is not reported
		done
		run busy "${test_command[@]}"
		quiet
		;;
	memory)
		dir=$(bounded $((4 << 30))) || { say "memory: skipped: there is no memory controller of cgroups"; return; }
		in_group memory "$dir" "${test_command[@]}"
		;;
	always | never)
		before=$(sed 's/.*\[\(.*\)\].*/\1/' "$pages" 2>/dev/null)
		echo "$1" >"$pages" 2>/dev/null || { say "$1: skipped: $pages cannot be written"; return; }
		run "$1" "${test_command[@]}"
		echo "$before" >"$pages"
		before=
		;;
	tmpfs)
		mkdir -p "$work/tmpfs"
		mount -t tmpfs -o size=90% tmpfs "$work/tmpfs" || { say "tmpfs: skipped: it cannot be mounted"; return; }
		copy "$work/tmpfs/tree"
		mkdir "$work/tmpfs/tmp"
		run tmpfs env TMPDIR="$work/tmpfs/tmp" CARGO_TARGET_DIR="$work/tmpfs/target" \
			sh -c 'cd "$0" && exec "$@"' "$work/tmpfs/tree" "${test_command[@]}"
		umount -l "$work/tmpfs"
		;;
	bare) bare || say "bare: skipped: there is no rustc to copy" ;;
	*)
		say "there is no mode $1: core memory always never tmpfs slow busy bare"
		exit 2
		;;
	esac
}

# A function, so that bash has read the whole script before it runs anything: the file may change
# meanwhile.
main() {
	[ "$(id -u)" = 0 ] || { say "needs root, for cgroups, mounts and other users"; exit 2; }
	cd "$here" || exit 2
	local one
	failed=
	export SYNCLINE_TEST_MPI=${SYNCLINE_TEST_MPI:-$here/target/mpi/openmpi5/bin/mpicc}
	[ $# -gt 0 ] || set -- core memory always never tmpfs bare
	# One build for all modes, outside of all bounds; `tmpfs` and `bare` have target directories of
	# their own.
	for one in "$@"; do
		case $one in tmpfs | bare) continue ;; esac
		cargo test "${tests[@]}" --no-run >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
		break
	done
	for one in "$@"; do mode "$one"; done
	if [ -n "$failed" ]; then
		say "failed:$failed; the output is in target/anywhere-*.log"
		exit 1
	fi
	say "all passed"
	exit 0
}
main "$@"
