/* A pool whose tasks have outcomes even if a worker crashes: one of the tasks aborts its process,
 * which is reported as its error; the others have their results.
 *
 *     cc farm_pool.c -lsyncline_c -pthread */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syncline.h"

enum { TASKS = 20, BROKEN = 13 };

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, syncline_last_failure()->message);
    return 1;
}

#define TRY(call)                                                                                               \
    do {                                                                                                        \
        if ((call) != SYNCLINE_STATUS_OK) {                                                                     \
            return failed(#call);                                                                               \
        }                                                                                                       \
    } while (0)

/* The function that a worker calls for each task. It may use a library that is not thread-safe or
 * may crash. */
static int work(const void *task, size_t length, syncline_farm_result *result, void *context) {
    uint64_t n;
    (void)context;
    if (length != sizeof n) {
        syncline_farm_result_fail(result, "a task is a number");
        return 1;
    }
    memcpy(&n, task, sizeof n);
    if (n == BROKEN) {
        abort();
    }
    uint64_t square = n * n;
    return syncline_farm_result_set(result, &square, sizeof square) == SYNCLINE_STATUS_OK ? 0 : 1;
}

int main(void) {
    /* A task that hangs fails, too. */
    const syncline_farm_pool_options options = {.timeout = 300000000000};
    const syncline_farm_outcome *outcome;
    syncline_farm_pool *pool;
    uint64_t sum = 0, square;

    TRY(syncline_farm_serve(work, NULL)); /* workers do not return */
    TRY(syncline_farm_pool_new(2, NULL, NULL, &options, &pool));
    for (uint64_t n = 0; n < TASKS; n++) {
        TRY(syncline_farm_pool_submit(pool, &n, sizeof n, 0, 0, NULL));
    }
    for (;;) {
        TRY(syncline_farm_pool_next(pool, &outcome));
        if (!outcome) {
            break; /* all tasks have ended */
        }
        if (outcome->status == SYNCLINE_STATUS_OK && outcome->length == sizeof square) {
            memcpy(&square, outcome->bytes, sizeof square);
            sum += square;
        } else {
            printf("task %d has no result\n", (int)outcome->id);
            fprintf(stderr, "task %d: %s\n", (int)outcome->id, outcome->error);
        }
        syncline_farm_outcome_dispose(outcome);
    }
    printf("the sum of the others is %llu\n", (unsigned long long)sum);
    TRY(syncline_farm_pool_finish(pool));
    TRY(syncline_farm_pool_free(pool));
    return 0;
}
