/* A run without progress: a watch, in a thread of its own, reports which task waits for which
 * other, and ends the run.
 *
 *     cc stuck.c -lsyncline_c -pthread
 *
 * The check has found no deadlock, and the locations have none. But the body of the first task
 * waits for a latch that is not a location and that does not open. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syncline.h"

static void check(syncline_status status) {
    if (status != SYNCLINE_STATUS_OK) {
        fprintf(stderr, "%s\n", syncline_last_failure()->message);
        exit(1);
    }
}

/* The latch that the body waits for. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int is_open;

static int wait_for_the_latch(void *user, uint64_t iteration, syncline_step *step) {
    (void)user, (void)iteration, (void)step;
    pthread_mutex_lock(&mutex);
    while (!is_open) {
        pthread_cond_wait(&condition, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    return 0;
}

static int nothing(void *user, uint64_t iteration, syncline_step *step) {
    (void)user, (void)iteration, (void)step;
    return 0;
}

static void *look(void *argument) {
    char *report = NULL;
    /* Half a second without a step gives the report. `true` makes the run end. The loop repeats
     * while the run has not begun. */
    while (!report) {
        check(syncline_watch_stuck(argument, 500000000, true, SYNCLINE_DRAWING_WORDS, &report));
    }
    const char *who = "'second' waits at 'cell' for 'first'";
    printf("stuck: %s\n", strstr(report, who) ? who : "the report does not name the waiting task");
    syncline_text_dispose(report);
    /* A body in progress is not interrupted: the run ends when it returns, so the latch must open.
     */
    pthread_mutex_lock(&mutex);
    is_open = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void) {
    syncline_location *cell;
    syncline_overlay *overlay;
    syncline_watch *watch;
    pthread_t thread;
    char *text;
    uint32_t active[2];
    size_t count;
    check(syncline_location_new("cell", &cell));
    check(syncline_overlay_new(&overlay));
    check(syncline_overlay_task(overlay, "first", NULL, 0, &cell, 1, wait_for_the_latch, NULL, NULL));
    check(syncline_overlay_task(overlay, "second", NULL, 0, &cell, 1, nothing, NULL, NULL));
    check(syncline_overlay_check(overlay, SYNCLINE_INITIAL_PROGRAM));

    check(syncline_watch_new(overlay, &watch));
    check(syncline_watch_draw(watch, SYNCLINE_DRAWING_SVG, &text));
    printf("%s\n", text ? "running?" : "not running: nothing to see");
    check(syncline_overlay_draw(overlay, SYNCLINE_DRAWING_WORDS, &text));
    check(syncline_overlay_active(overlay, active, 2, &count));
    if (count == 1 && active[0] == 0 && strstr(text, "second")) {
        printf("at the start 'first' is active, 'second' is not\n");
    }
    syncline_text_dispose(text);

    if (pthread_create(&thread, NULL, look, watch)) {
        perror("pthread_create");
        return 1;
    }
    syncline_status status = syncline_overlay_run(overlay, SYNCLINE_RUNNER_POOL, 2, 1000, NULL);
    pthread_join(thread, NULL);
    if (status == SYNCLINE_STATUS_STUCK && strstr(syncline_last_failure()->message, "nothing has moved")) {
        printf("the run ended: its message is the report\n");
    }

    syncline_watch_free(watch);
    check(syncline_overlay_free(overlay));
    syncline_location_free(cell);
    return 0;
}
