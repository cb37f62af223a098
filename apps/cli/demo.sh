#!/bin/sh
# The main use, in small: six matrices of 2048 x 2048 doubles, 192 MiB, swept 20 times within 48
# MiB, streamed in as few passes over the data as the memory allows. Every bit is compared with the
# plain double loop.
# Usage: demo.sh SYNCLINE
set -eu
syncline=$1
# The folder is beside the program, not in /tmp, which may be a file system in memory.
folder=$(mktemp -d "$(dirname "$syncline")/demo.XXXXXX")
trap 'rm -rf "$folder"' EXIT INT TERM

say() { printf '\n$ syncline %s\n' "$*"; }
say gen lk23 data --rows 2048 --cols 2048
"$syncline" gen lk23 "$folder/data" --rows 2048 --cols 2048
say run lk23 data --iterations 20 --memory 48M --verify
"$syncline" run lk23 "$folder/data" --iterations 20 --memory 48M --verify
