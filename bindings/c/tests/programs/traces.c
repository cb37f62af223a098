/* Records to the file that is named as an argument, if there is one: sections of the program, and
 * what the library does for it. Run by tests/c/programs.rs. */
#include "expect.h"

int main(int count, char **arguments) {
    syncline_barrier *barrier;
    syncline_status done;
    if (count > 1) {
        FAILS(syncline_trace_end(), MISUSE, "this thread has not begun a section of the trace");
        OK(syncline_trace_begin("before")); /* nothing is recorded yet */
        OK(syncline_trace_start(arguments[1]));
        EXPECT(syncline_trace_start(arguments[1]) == SYNCLINE_STATUS_MISUSE);
        OK(syncline_trace_end());
    }
    FAILS(syncline_trace_begin(NULL), INVALID_ARGUMENT, "name is NULL");
    OK(syncline_barrier_new(SYNCLINE_BARRIER_KIND_COUNTER, 1, 0, &barrier));
    OK(syncline_trace_begin("outer"));
    for (int round = 0; round < 3; round++) {
        OK(syncline_trace_begin("inner"));
        OK(syncline_barrier_wait(barrier, 0));
        OK(syncline_trace_end());
    }
    OK(syncline_trace_end());
    OK(syncline_barrier_free(barrier));
    done = count > 1 ? syncline_trace_finish() : SYNCLINE_STATUS_OK;
    EXPECT(done == SYNCLINE_STATUS_OK);
    printf("recorded\n");
    return 0;
}
