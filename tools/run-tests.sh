#!/bin/sh
# Runs a program of tests with the time of each test, and ends it if it takes longer than half an
# hour: then a test waits for ever. The test runner has named the test: "... has been running for
# over 60 seconds".
# The times are an unstable option of the runner, which the variable allows on a stable toolchain.
# A shell starts what it leaves in the background with SIGINT ignored, and so do all programs below
# it: tests of interrupts need the default.
exec timeout --foreground --verbose --signal=ABRT --kill-after=10 1800 \
    env --default-signal=INT,QUIT RUSTC_BOOTSTRAP=1 "$@" -Zunstable-options --report-time
