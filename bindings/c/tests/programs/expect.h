/* Assertions about calls, which report the line that fails. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syncline.h"

static inline void fail(int line, const char *what) {
    const syncline_failure *last = syncline_last_failure();
    fprintf(stderr, "line %d: %s (last failure: %s)\n", line, what, last ? last->message : "none");
    exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
#define OK(call) EXPECT((call) == SYNCLINE_STATUS_OK)
/* Asserts that the call fails with this status and this message. */
#define FAILS(call, what, words)                                                                                \
    do {                                                                                                        \
        EXPECT((call) == SYNCLINE_STATUS_##what);                                                               \
        EXPECT(syncline_last_failure()->status == SYNCLINE_STATUS_##what);                                      \
        EXPECT(strcmp(syncline_last_failure()->message, words) == 0);                                           \
    } while (0)

#endif
