/* A planted deadlock: two tasks that write both locations, in crossed orders. The check refuses it
 * and reports the cycle of tasks that would wait for one another; with the orders corrected the
 * same overlay runs.
 *
 *     cc deadlock.c -lsyncline_c */
#include <stdio.h>
#include <stdlib.h>

#include "syncline.h"

static void check(syncline_status status) {
    if (status != SYNCLINE_STATUS_OK) {
        fprintf(stderr, "%s\n", syncline_last_failure()->message);
        exit(1);
    }
}

static int swap(void *user, uint64_t iteration, syncline_step *step) {
    int *pair = user, first = pair[0];
    (void)iteration, (void)step;
    pair[0] = pair[1];
    pair[1] = first;
    return 0;
}

int main(void) {
    int pair[2] = {1, 2};
    syncline_location *both[2];
    syncline_overlay *overlay;
    uint32_t there, back;
    check(syncline_location_new("x", &both[0]));
    check(syncline_location_new("y", &both[1]));
    check(syncline_overlay_new(&overlay));
    check(syncline_overlay_task(overlay, "there", NULL, 0, both, 2, swap, pair, &there));
    check(syncline_overlay_task(overlay, "back", NULL, 0, both, 2, swap, pair, &back));

    uint32_t at_x[] = {there, back}, at_y[] = {back, there};
    check(syncline_overlay_order(overlay, both[0], at_x, 2));
    check(syncline_overlay_order(overlay, both[1], at_y, 2));
    syncline_status status = syncline_overlay_check(overlay, SYNCLINE_INITIAL_PROGRAM);
    if (status != SYNCLINE_STATUS_DEADLOCK) {
        fprintf(stderr, "the deadlock was not found\n");
        return 1;
    }
    printf("refused: %s\n", syncline_last_failure()->message);

    check(syncline_overlay_order(overlay, both[1], at_x, 2));
    check(syncline_overlay_check(overlay, SYNCLINE_INITIAL_PROGRAM));
    uint32_t active;
    size_t count;
    const char *name;
    check(syncline_overlay_active(overlay, &active, 1, &count));
    check(syncline_overlay_task_name(overlay, active, &name));
    printf("first of %zu: %s\n", count, name);
    check(syncline_overlay_run(overlay, SYNCLINE_RUNNER_POOL, 2, 3, NULL));
    printf("after 6 swaps: %d %d\n", pair[0], pair[1]);

    check(syncline_overlay_free(overlay));
    syncline_location_free(both[0]);
    syncline_location_free(both[1]);
    return 0;
}
