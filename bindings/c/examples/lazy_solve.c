/* The roots of a polynomial by tasks whose number is not known beforehand. Each task is a process,
 * which gets an interval, cuts it into parts, and sends back those in which the sign changes; each
 * of these becomes a task again, until it is narrow enough. If a process crashes, its interval is
 * lost, and nothing else.
 *
 *     cc lazy_solve.c -lsyncline_c -pthread */
#include <stdio.h>
#include <stdlib.h>

#include "syncline.h"

enum { PARTS = 200, MOST = 100 };

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

static double polynomial(double x) { return ((((x - 15) * x + 85) * x - 225) * x + 274) * x - 120; }

static int worker(syncline_farm *farm) {
    uint64_t parent = syncline_farm_parent(farm);
    double interval[2], parts[2 * PARTS];
    size_t count, found = 0;
    TRY(syncline_farm_recv_into(farm, parent, SYNCLINE_FARM_KIND_F64, interval, 2, &count));
    double width = (interval[1] - interval[0]) / PARTS;
    for (int n = 0; n < PARTS; n++) {
        double left = interval[0] + n * width, right = interval[0] + (n + 1) * width;
        if ((polynomial(left) < 0) != (polynomial(right) < 0)) {
            parts[found++] = left;
            parts[found++] = right;
        }
    }
    TRY(syncline_farm_send(farm, parent, SYNCLINE_FARM_KIND_F64, parts, found));
    TRY(syncline_farm_leave(farm));
    return 0;
}

/* Sends the task before its process starts. */
static int begin(syncline_farm *farm, const double *interval) {
    uint64_t vpid;
    TRY(syncline_farm_reserve(farm, &vpid));
    TRY(syncline_farm_send(farm, vpid, SYNCLINE_FARM_KIND_F64, interval, 2));
    TRY(syncline_farm_start(farm, vpid, NULL, NULL)); /* NULL: this program again */
    return 0;
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static int manager(syncline_farm *farm) {
    double whole[2] = {0.1234, 5.7654}, roots[MOST];
    size_t begun = 1, ended = 0, count = 0;
    TRY(begin(farm, whole));
    for (; ended < begun; ended++) {
        const syncline_farm_message *message;
        syncline_status status = syncline_farm_recv_any(farm, NULL, &message);
        if (status == SYNCLINE_STATUS_GONE) {
            failed("an interval is lost"); /* its process crashed; the others continue */
            continue;
        }
        TRY(status);
        const double *parts = message->data; /* read in place, without a copy */
        for (size_t n = 0; n + 1 < message->count; n += 2) {
            if (parts[n + 1] - parts[n] > 1e-6) {
                TRY(begin(farm, parts + n));
                begun++;
            } else if (count < MOST) {
                roots[count++] = (parts[n] + parts[n + 1]) / 2;
            }
        }
        syncline_farm_message_dispose(message);
    }
    qsort(roots, count, sizeof *roots, ascending);
    printf("%zu processes:", begun);
    for (size_t n = 0; n < count; n++) {
        printf(" %.5f", roots[n]);
    }
    puts("");
    TRY(syncline_farm_free(farm));
    return 0;
}

int main(void) {
    syncline_farm *farm;
    TRY(syncline_farm_join(&farm));
    if (farm) {
        return worker(farm);
    }
    TRY(syncline_farm_new(NULL, &farm));
    return manager(farm);
}
