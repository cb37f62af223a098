#!/usr/bin/env bash
# Tests of the Python package, on the python3 of the PATH or that of PYTHON.
#   test.sh deps TIER  installs what the tests use, from PyPI, into a virtual environment: in the
#                      quick tier numpy, pytest and hypothesis, otherwise all
#   test.sh run TIER   quick: the tests; full, soak: also lints, types, the reference, the wheel in
#                      a clean environment, and the tests with the address sanitizer
#   test.sh lints      checks the formatting and the style, if ruff is installed
#   test.sh reference  writes the reference of the package, as pages for a browser
# TIER is quick, full or soak [default: SYNCLINE_TESTS, or quick]; tests/conftest.py says what it
# means. The extension is that of the debug build, whose crates are those of the tests in Rust. What
# cannot be had is printed as `skipped: why`.
set -uo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
# A relative folder is one of the root, as for cargo there.
[ -z "${CARGO_TARGET_DIR:-}" ] || export CARGO_TARGET_DIR=$(cd "$root" && realpath -m "$CARGO_TARGET_DIR")
target=${CARGO_TARGET_DIR:-$root/target}
python=${PYTHON:-python3}
home=$target/python
venv=$home/venv
clean=$home/clean
# cffi and numba compile functions, the others make the arrays and objects of tests.
needed=(numpy pytest hypothesis)
others=(cffi cloudpickle dask h5netcdf h5py ipykernel maturin mypy nbclient netcdf4 numba
    opencv_python_headless pdoc rasterio rioxarray ruff scipy xarray zarr)
failed=0
export SYNCLINE_TESTS=${2:-${SYNCLINE_TESTS:-quick}}
[ "${1:-run}" != reference ] || SYNCLINE_TESTS=full
case $SYNCLINE_TESTS in
quick) wanted=("${needed[@]}") ;;
full | soak) wanted=("${needed[@]}" "${others[@]}") ;;
*) echo "$SYNCLINE_TESTS: the tiers are quick, full and soak" >&2 && exit 2 ;;
esac

can_run() {
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "skipped: the tests of the Python package: they need Python 3.11 or newer, as python3 or PYTHON"
        return 1
    fi
}

is_ready() { "$venv/bin/python" -c 'import hypothesis, numpy, pytest' 2>/dev/null; }

deps() {
    can_run || return 0
    [ -x "$venv/bin/python" ] && ! "$venv/bin/python" -c '' 2>/dev/null && rm -rf "$venv"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || return 0
    local missing=()
    for package in "${wanted[@]}"; do
        [ -n "$(ls -d "$venv"/lib/python3*/site-packages/"$package"-* 2>/dev/null)" ] || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return 0
    if [ -n "${NO_INSTALL:-}" ]; then
        echo "missing: ${missing[*]}. From PyPI: $venv/bin/python -m pip install ${missing[*]}"
        return 0
    fi
    "$venv/bin/python" -m pip install -q "${missing[@]}" || {
        # One that has no wheel here must not keep the others away.
        for package in "${missing[@]}"; do
            "$venv/bin/python" -m pip install -q "$package" || echo "not installed: $package; tests that need it will be skipped"
        done
    }
}

step() {
    local since=$SECONDS
    "$@" || { failed=1; echo "python: FAILED: $*"; }
    echo "python: $((SECONDS - since)) s: $1"
}

# A folder with the package, whose extension is the given file.
site() {
    rm -rf "$1" && mkdir -p "$1/syncline" && cp python/syncline/* "$1/syncline" 2>/dev/null
    cp "$2" "$1/syncline/_syncline.abi3.so"
    # Each worker is an interpreter, and none compiles these again, though it may write nothing.
    "$venv/bin/python" -m compileall -q "$1/syncline"
}

lints() {
    local ruff=$venv/bin/ruff
    [ -x "$ruff" ] || { echo "skipped: ruff is not installed"; return 0; }
    "$ruff" format --check -q python tests reference.py && "$ruff" check -q python tests reference.py
}

types() {
    "$venv/bin/python" -c 'import mypy' 2>/dev/null || { echo "skipped: mypy is not installed"; return 0; }
    MYPYPATH=python PYTHONPATH=$home/site "$venv/bin/python" -m mypy --strict --cache-dir "$home/mypy" tests/typed.py &&
        (cd "$home/site" && "$venv/bin/python" -m mypy.stubtest syncline --ignore-missing-stub \
            --mypy-config-file "$OLDPWD/pyproject.toml")
}

tests() { PYTHONPATH=$home/site "$venv/bin/python" -m pytest -q -o faulthandler_timeout=300 tests; }

# The reference, of the docstrings and the stubs. What pdoc cannot read is an error.
reference() {
    "$venv/bin/python" -c 'import pdoc' 2>/dev/null || { echo "skipped: pdoc is not installed"; return 0; }
    PYTHONPATH=$home/site "$venv/bin/python" -W error reference.py "$home/reference"
}

# The wheel of the debug build, installed where nothing else is: its files and metadata.
wheel() {
    [ -x "$venv/bin/maturin" ] || { echo "skipped: maturin is not installed"; return 0; }
    mkdir -p syncline.data/scripts
    rm -rf "$home/wheels" "$clean"
    "$venv/bin/maturin" build -q --profile dev --strip --out "$home/wheels" --target-dir "$target" \
        --interpreter "$venv/bin/python" &&
        "$venv/bin/python" -m venv --without-pip "$clean" &&
        "$venv/bin/python" -m pip -q --python "$clean/bin/python" install "$home"/wheels/*.whl &&
        (cd "$home" && "$clean/bin/python" "$OLDPWD/tests/installed.py" "$OLDPWD/README.md")
}

# Accesses outside of their memory, in the crates of this repository. Leaks are not looked for:
# Python has its own. Other crates are those of the wheel, so that few are compiled again; what
# they allocate is guarded, too.
sanitized() {
    local runtime
    runtime=$(gcc -print-file-name=libasan.so 2>/dev/null)
    [ -e "$runtime" ] || { echo "skipped: gcc has no libasan for the address sanitizer"; return 0; }
    (cd "$root" && RUSTC_WORKSPACE_WRAPPER=$PWD/bindings/python/sanitizing-rustc.sh \
        cargo build -q -p syncline-python) || return 1
    site "$home/asan" "$target/debug/lib_syncline.so"
    # The next build puts the usual one there.
    rm -f "$target/debug/lib_syncline.so"
    # What these are about is computed in Python; the crates read the same arrays in other tests.
    local elsewhere=" and not test_edges and not test_geotiff and not test_meaning and not test_numbers and not test_outputs"
    # Bounds on the private memory of workers do not go with the sanitizer's shadow of all memory.
    LD_PRELOAD=$runtime ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 SYNCLINE_TESTS=quick PYTHONPATH=$home/asan \
        "$venv/bin/python" -m pytest -q -o faulthandler_timeout=300 -k "not memory_bounds and not pages and not notebooks$elsewhere" tests
}

built() {
    # Always: an extension of an earlier build is not the one to be tested.
    (cd "$root" && cargo build -q -p syncline-python) || return 1
    site "$home/site" "$target/debug/lib_syncline.so"
}

run() {
    can_run || return 0
    is_ready || { echo "skipped: the tests of the Python package: no numpy, pytest and hypothesis in $venv"; return 0; }
    step built
    [ $failed = 0 ] || return 1
    if [ "$SYNCLINE_TESTS" = quick ]; then
        step tests
        return $failed
    fi
    step lints
    step types
    step reference
    step tests
    step wheel
    step sanitized
    return $failed
}

case ${1:-run} in
deps) deps ;;
run) run ;;
lints) lints ;;
reference) deps && built && reference && echo "$home/reference/syncline.html" ;;
*) echo "usage: test.sh [deps|run] [quick|full|soak], test.sh lints|reference" >&2 && exit 2 ;;
esac
