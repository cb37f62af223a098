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

/* Whether a call was refused because another thread's call uses the object, which may be a short
 * one: then the call is to be repeated. */
static inline bool is_busy(syncline_status status) {
    const char *words = "another call is using ";
    return status == SYNCLINE_STATUS_MISUSE && strncmp(syncline_last_failure()->message, words, strlen(words)) == 0;
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
