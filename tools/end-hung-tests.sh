#!/bin/sh
# Runs a program of tests, and ends it if it takes longer than half an hour: then a test waits for
# ever. The test runner has named the test: "... has been running for over 60 seconds".
exec timeout --foreground --verbose --signal=ABRT --kill-after=10 1800 "$@"
