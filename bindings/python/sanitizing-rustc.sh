#!/bin/sh
# The compiler with the address sanitizer, for the crates of this repository: cargo calls it for
# these alone, as RUSTC_WORKSPACE_WRAPPER, and keeps what it makes apart. The flag of the sanitizer
# is one of nightly compilers, which the variable lets others take.
case " $* " in
*" --crate-name build_script_"*) exec "$@" ;;
esac
RUSTC_BOOTSTRAP=1 exec "$@" -Zsanitizer=address -Copt-level=0 -Cdebuginfo=0
