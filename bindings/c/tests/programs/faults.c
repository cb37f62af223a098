/* Every failure gives a precise error and changes nothing. Run by tests/c/programs.rs. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <time.h>

#include "expect.h"

static syncline_location *location(const char *name) {
    syncline_location *made;
    OK(syncline_location_new(name, &made));
    return made;
}

static syncline_overlay *overlay(void) {
    syncline_overlay *made;
    OK(syncline_overlay_new(&made));
    return made;
}

static void null_is_an_error(void) {
    syncline_location *x = location("x");
    syncline_overlay *o = overlay();
    syncline_handle *none = NULL;
    syncline_location *no_location = NULL;
    size_t count;
    const char *name;
    char *text;
    syncline_watch *watch;
    FAILS(syncline_location_new(NULL, &no_location), INVALID_ARGUMENT, "the name of the location is NULL");
    FAILS(syncline_location_new("x", NULL), INVALID_ARGUMENT, "location is NULL");
    FAILS(syncline_location_new("\xff", &no_location), INVALID_ARGUMENT, "the name of the location is not UTF-8");
    FAILS(syncline_reader_new(NULL, &none), INVALID_ARGUMENT, "the location is NULL");
    FAILS(syncline_writer_new(x, NULL), INVALID_ARGUMENT, "handle is NULL");
    FAILS(syncline_post(NULL), INVALID_ARGUMENT, "the handle is NULL");
    FAILS(syncline_post_all(NULL, 1), INVALID_ARGUMENT, "the array of handles is NULL");
    FAILS(syncline_post_all(&none, 1), INVALID_ARGUMENT, "the handle is NULL");
    OK(syncline_post_all(NULL, 0));
    FAILS(syncline_acquire(NULL), INVALID_ARGUMENT, "the handle is NULL");
    FAILS(syncline_acquire_for(NULL, 1), INVALID_ARGUMENT, "the handle is NULL");
    FAILS(syncline_try_acquire(NULL), INVALID_ARGUMENT, "the handle is NULL");
    FAILS(syncline_next(NULL), INVALID_ARGUMENT, "the handle is NULL");
    FAILS(syncline_release(NULL), INVALID_ARGUMENT, "the handle is NULL");
    FAILS(syncline_abandon(NULL), INVALID_ARGUMENT, "the handle is NULL");
    FAILS(syncline_overlay_new(NULL), INVALID_ARGUMENT, "overlay is NULL");
    FAILS(syncline_overlay_task(o, "t", NULL, 0, NULL, 0, NULL, NULL, NULL), INVALID_ARGUMENT,
          "the body of the task is NULL");
    FAILS(syncline_overlay_task(o, "t", NULL, 1, NULL, 0, NULL, NULL, NULL), INVALID_ARGUMENT,
          "the array of reads is NULL");
    FAILS(syncline_overlay_task(o, "t", NULL, 0, &no_location, 1, NULL, NULL, NULL), INVALID_ARGUMENT,
          "a location in writes is NULL");
    FAILS(syncline_overlay_order(o, NULL, NULL, 0), INVALID_ARGUMENT, "the location is NULL");
    FAILS(syncline_overlay_order(o, x, &(uint32_t){3}, 1), INVALID_ARGUMENT, "there is no task 3: there are 0");
    FAILS(syncline_overlay_check(NULL, SYNCLINE_INITIAL_WAVE), INVALID_ARGUMENT, "the overlay is NULL");
    FAILS(syncline_overlay_check(o, 77), INVALID_ARGUMENT, "there is no syncline_initial 77");
    FAILS(syncline_overlay_task_name(o, 0, &name), INVALID_ARGUMENT, "there is no task 0: there are 0");
    FAILS(syncline_overlay_run(o, 99, 1, 1, NULL), INVALID_ARGUMENT, "there is no syncline_runner 99");
    FAILS(syncline_overlay_active(o, NULL, 1, &count), INVALID_ARGUMENT, "tasks is NULL");
    FAILS(syncline_step_leave(NULL), INVALID_ARGUMENT, "the step is NULL");
    FAILS(syncline_step_report(NULL, 1.0), INVALID_ARGUMENT, "the step is NULL");
    FAILS(syncline_overlay_draw(o, SYNCLINE_DRAWING_TEXT, &text), MISUSE, "the overlay was not checked");
    FAILS(syncline_watch_new(o, &watch), MISUSE, "the overlay was not checked");
    OK(syncline_overlay_check(o, SYNCLINE_INITIAL_PROGRAM));
    FAILS(syncline_overlay_draw(o, 9, &text), INVALID_ARGUMENT, "there is no syncline_drawing 9");
    FAILS(syncline_overlay_draw(o, SYNCLINE_DRAWING_TEXT, NULL), INVALID_ARGUMENT, "text is NULL");
    FAILS(syncline_watch_new(o, NULL), INVALID_ARGUMENT, "watch is NULL");
    FAILS(syncline_watch_draw(NULL, SYNCLINE_DRAWING_TEXT, &text), INVALID_ARGUMENT, "the watch is NULL");
    FAILS(syncline_watch_stuck(NULL, 1, false, SYNCLINE_DRAWING_WORDS, &text), INVALID_ARGUMENT, "the watch is NULL");
    OK(syncline_watch_new(o, &watch));
    text = (char *)1;
    OK(syncline_watch_stuck(watch, 1000, true, SYNCLINE_DRAWING_WORDS, &text));
    EXPECT(text == NULL); /* there is no run, and none begins */
    syncline_watch_free(watch);
    syncline_watch_free(NULL);
    syncline_text_dispose(NULL);
    syncline_location_free(NULL);
    syncline_report_dispose(NULL);
    OK(syncline_handle_free(NULL));
    OK(syncline_overlay_free(NULL));
    OK(syncline_overlay_free(o));
    syncline_location_free(x);
}

static void handles_go_round_in_their_states(void) {
    syncline_location *x = location("x");
    syncline_handle *a, *b, *c, *all[2];
    OK(syncline_writer_new(x, &a));
    OK(syncline_reader_new(x, &b));
    OK(syncline_reader_new(x, &c));
    syncline_location_free(x); /* handles keep it alive */
    FAILS(syncline_release(a), MISUSE, "the handle does not hold its location");
    FAILS(syncline_next(a), MISUSE, "the handle does not hold its location");
    OK(syncline_abandon(a));
    OK(syncline_post(a));
    OK(syncline_post(a));
    OK(syncline_post(b));
    FAILS(syncline_next(a), MISUSE, "the handle does not hold its location");
    OK(syncline_try_acquire(a));
    FAILS(syncline_acquire(a), MISUSE, "the handle holds its location already");
    FAILS(syncline_post(a), MISUSE, "the handle holds its location already");
    FAILS(syncline_abandon(a), MISUSE, "the handle holds its location already");
    FAILS(syncline_try_acquire(b), NOT_GRANTED, "the location is not granted yet");
    FAILS(syncline_acquire_for(b, 1000), TIMED_OUT, "location 'x' was not granted before the deadline");

    /* No handle is posted if one of them cannot be. */
    all[0] = c, all[1] = a;
    FAILS(syncline_post_all(all, 2), MISUSE, "the handle holds its location already");
    all[1] = c;
    FAILS(syncline_post_all(all, 2), INVALID_ARGUMENT, "a handle stands twice in the array of handles");
    OK(syncline_next(a)); /* queue: b, a */
    OK(syncline_try_acquire(b));
    FAILS(syncline_try_acquire(c), NOT_GRANTED, "the location is not granted yet");
    OK(syncline_handle_free(a)); /* its request is skipped */
    OK(syncline_acquire(c));
    OK(syncline_next(b));
    OK(syncline_acquire(b));
    OK(syncline_handle_free(b)); /* its grant is released */
    OK(syncline_release(c));
    OK(syncline_handle_free(c));
}

static void *acquire(void *handle) {
    syncline_status status;
    EXPECT(syncline_last_failure() == NULL); /* failures belong to a thread */
    do {
        status = syncline_acquire(handle);
    } while (is_busy(status));
    OK(status);
    OK(syncline_release(handle));
    return NULL;
}

static void one_handle_is_not_for_two_threads_at_once(void) {
    syncline_location *x = location("x");
    syncline_handle *holds, *waits;
    pthread_t thread;
    OK(syncline_writer_new(x, &holds));
    OK(syncline_writer_new(x, &waits));
    OK(syncline_acquire(holds));
    EXPECT(pthread_create(&thread, NULL, acquire, waits) == 0);
    /* Until the other thread is in its call. */
    while (syncline_post(waits) == SYNCLINE_STATUS_OK) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    FAILS(syncline_handle_free(waits), MISUSE, "another call is using the handle at this moment");
    OK(syncline_release(holds));
    EXPECT(pthread_join(thread, NULL) == 0);
    OK(syncline_handle_free(waits));
    OK(syncline_handle_free(holds));
    syncline_location_free(x);
}

/* The action of a body in iteration 3. */
struct act {
    syncline_overlay *own, *other;
    int code, leave, count;
};

static int body(void *user, uint64_t iteration, syncline_step *step) {
    struct act *act = user;
    act->count++;
    if (iteration != 3) {
        return 0;
    }
    if (act->leave) {
        OK(syncline_step_leave(step));
    }
    if (act->own) {
        FAILS(syncline_overlay_run(act->own, SYNCLINE_RUNNER_POOL, 1, 1, NULL), MISUSE,
              "another call is using the overlay at this moment");
        FAILS(syncline_overlay_free(act->own), MISUSE, "another call is using the overlay at this moment");
    }
    if (act->other) {
        FAILS(syncline_overlay_run(act->other, SYNCLINE_RUNNER_POOL, 1, 1, NULL), IN_USE,
              "location 'x' is in use: another overlay runs with it, or a handle has a request");
    }
    return act->code;
}

static void bodies_fail_by_name_and_number(void) {
    static const uint32_t runners[] = {SYNCLINE_RUNNER_THREADS, SYNCLINE_RUNNER_POOL,
                                       SYNCLINE_RUNNER_POOL_DEPTH_FIRST, SYNCLINE_RUNNER_STATIC,
                                       SYNCLINE_RUNNER_QUEUES};
    for (size_t i = 0; i < sizeof runners / sizeof *runners; i++) {
        syncline_location *x = location("x");
        syncline_overlay *o = overlay(), *other = overlay();
        syncline_report *report;
        struct act quiet = {0}, loud = {0};
        OK(syncline_overlay_task(o, "quiet", &x, 1, NULL, 0, body, &quiet, NULL));
        OK(syncline_overlay_task(o, "loud", NULL, 0, &x, 1, body, &loud, NULL));
        OK(syncline_overlay_task(other, "other", &x, 1, NULL, 0, body, &quiet, NULL));
        syncline_location_free(x); /* overlays keep it alive */
        FAILS(syncline_overlay_run(o, runners[i], 2, 10, NULL), MISUSE, "the overlay was not checked");
        OK(syncline_overlay_check(o, SYNCLINE_INITIAL_PROGRAM));
        OK(syncline_overlay_check(other, SYNCLINE_INITIAL_MAX_PARALLEL));
        FAILS(syncline_overlay_check(o, SYNCLINE_INITIAL_PROGRAM), MISUSE,
              "the overlay was checked, and cannot be changed any more");
        FAILS(syncline_overlay_task(o, "late", NULL, 0, NULL, 0, body, NULL, NULL), MISUSE,
              "the overlay was checked, and cannot be changed any more");

        loud.code = -42;
        FAILS(syncline_overlay_run(o, runners[i], 2, 10, &report), BODY_FAILED,
              "task 'loud' failed in iteration 3: its body returned -42");
        const syncline_failure *last = syncline_last_failure();
        EXPECT(last->code == -42 && last->iteration == 3 && strcmp(last->task, "loud") == 0);
        EXPECT(report == NULL && loud.count == 4 && quiet.count <= 5);

        /* The overlay can run again; a task may leave, and no task waits for it. */
        loud = (struct act){.own = o, .other = other, .leave = 1};
        OK(syncline_overlay_run(o, runners[i], 2, 10, &report));
        EXPECT(report->iterations == 10 && report->steps == 14 && loud.count == 4);
        EXPECT(!report->converged && report->residual_count == 0);
        syncline_report_dispose(report);

        loud = (struct act){.leave = 1};
        FAILS(syncline_overlay_run_until(o, runners[i], 2, -1.0, 10, NULL), MISUSE,
              "task 'loud' failed in iteration 3: a task of a run with a convergence test may not leave it");
        OK(syncline_overlay_free(o));
        OK(syncline_overlay_free(other));
    }
}

static void what_cannot_run_is_refused(void) {
    syncline_location *l[2] = {location("x"), location("y")};
    syncline_overlay *o = overlay();
    struct act act = {0};
    uint32_t tasks[2];
    size_t count;
    OK(syncline_overlay_task(o, "a", l, 2, &l[1], 1, body, &act, NULL));
    FAILS(syncline_overlay_check(o, SYNCLINE_INITIAL_WAVE), BAD_OVERLAY, "task 'a' asks for location 'y' twice");
    OK(syncline_overlay_free(o));

    o = overlay();
    OK(syncline_overlay_task(o, "a", NULL, 0, &l[0], 1, body, &act, &tasks[0]));
    OK(syncline_overlay_task(o, "b", NULL, 0, &l[1], 1, body, &act, &tasks[1]));
    FAILS(syncline_overlay_check_priorities(o, &(int64_t){1}, 1), BAD_OVERLAY,
          "1 priorities were given for 2 tasks");
    FAILS(syncline_overlay_active(o, tasks, 2, &count), MISUSE, "the overlay was not checked");
    OK(syncline_overlay_check_priorities(o, (int64_t[]){7, -7}, 2));
    OK(syncline_overlay_active(o, NULL, 0, &count));
    EXPECT(count == 2);
    memset(tasks, -1, sizeof tasks);
    OK(syncline_overlay_active(o, tasks, 2, &count));
    EXPECT(tasks[0] == 0 && tasks[1] == 1 && count == 2);
    FAILS(syncline_overlay_run_until(o, SYNCLINE_RUNNER_POOL, 2, 0.0, 10, NULL), BAD_OVERLAY,
          "a convergence test needs tasks that depend on each other; 'a' and 'b' never do");
    EXPECT(act.count == 0);
    OK(syncline_overlay_free(o));
    syncline_location_free(l[0]);
    syncline_location_free(l[1]);
}

static void signals_say_what_is_wrong(void) {
    syncline_signal two[2] = {{0}, {0}};
    syncline_signal *crooked = (syncline_signal *)((char *)two + 4);
    uint64_t n;
    FAILS(syncline_signal_get(NULL, &n), INVALID_ARGUMENT, "the signal is NULL");
    FAILS(syncline_signal_get(two, NULL), INVALID_ARGUMENT, "number is NULL");
    FAILS(syncline_signal_get(crooked, &n), INVALID_ARGUMENT, "the signal is not aligned to 8 bytes");
    FAILS(syncline_signal_raise_to(NULL, 1), INVALID_ARGUMENT, "the signal is NULL");
    FAILS(syncline_signal_add(NULL, 1, NULL), INVALID_ARGUMENT, "the signal is NULL");
    FAILS(syncline_signal_wait(NULL, 1), INVALID_ARGUMENT, "the signal is NULL");
    FAILS(syncline_signal_wait_for(NULL, 1, 1), INVALID_ARGUMENT, "the signal is NULL");
    FAILS(syncline_signal_raise_to(two, UINT64_MAX), INVALID_ARGUMENT,
          "18446744073709551615 is more than a signal can hold, 4611686018427387903");
    OK(syncline_signal_raise_to(two, 5));
    OK(syncline_signal_raise_to(two, 3)); /* a signal never decreases */
    OK(syncline_signal_add(two, 2, NULL));
    FAILS(syncline_signal_wait_for(two, 8, 1000), TIMED_OUT, "the deadline passed");
    OK(syncline_signal_wait_for(two, 7, 0));
    OK(syncline_signal_get(two, &n));
    EXPECT(n == 7);
}

static void *wait_as_rank_0(void *barrier) {
    syncline_status status;
    do {
        status = syncline_barrier_wait(barrier, 0);
    } while (is_busy(status));
    FAILS(status, GONE, "rank 1 has left");
    return NULL;
}

static void barriers_say_what_is_wrong(uint32_t kind) {
    syncline_barrier *b;
    pthread_t thread;
    bool done;
    FAILS(syncline_barrier_new(kind, 2, 0, NULL), INVALID_ARGUMENT, "barrier is NULL");
    FAILS(syncline_barrier_new(4, 2, 0, &b), INVALID_ARGUMENT, "there is no syncline_barrier_kind 4");
    FAILS(syncline_barrier_new(kind, 0, 0, &b), INVALID_ARGUMENT, "a barrier or lock has 1 to 4096 members, not 0");
    FAILS(syncline_barrier_new(kind, SIZE_MAX, 0, &b), INVALID_ARGUMENT,
          "a barrier or lock has 1 to 4096 members, not 18446744073709551615");
    FAILS(syncline_barrier_new(SYNCLINE_BARRIER_KIND_DISSEMINATION, 2, 1, &b), INVALID_ARGUMENT,
          "a radix of 1 disseminates nothing: it must be at least 2");
    FAILS(syncline_barrier_new(SYNCLINE_BARRIER_KIND_AUTO, 2, 2, &b), INVALID_ARGUMENT,
          "only a dissemination barrier has a radix: it must be 0");
    FAILS(syncline_barrier_wait(NULL, 0), INVALID_ARGUMENT, "the barrier is NULL");
    OK(syncline_barrier_new(kind, 2, 0, &b));
    FAILS(syncline_barrier_wait(b, 2), INVALID_ARGUMENT, "there is no rank 2: the members are ranks 0 to 1");
    FAILS(syncline_barrier_arrive(b, SIZE_MAX), INVALID_ARGUMENT,
          "there is no rank 18446744073709551615: the members are ranks 0 to 1");
    FAILS(syncline_barrier_done(b, 0, NULL), INVALID_ARGUMENT, "done is NULL");
    OK(syncline_barrier_done(b, 0, &done));
    EXPECT(done);
    FAILS(syncline_barrier_wait_for(b, 0, 1000), TIMED_OUT, "the deadline passed");
    OK(syncline_barrier_done(b, 0, &done));
    EXPECT(!done);

    /* One rank in two threads at once: the second fails as soon as the first is in its wait. */
    EXPECT(!pthread_create(&thread, NULL, wait_as_rank_0, b));
    while (syncline_barrier_done(b, 0, &done) == SYNCLINE_STATUS_OK) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    FAILS(syncline_barrier_arrive(b, 0), MISUSE,
          "another call is using this rank of the barrier at this moment");
    FAILS(syncline_barrier_free(b), MISUSE, "another call is using the barrier at this moment");
    OK(syncline_barrier_leave(b, 1));
    pthread_join(thread, NULL);
    OK(syncline_barrier_leave(b, 1));
    FAILS(syncline_barrier_wait(b, 1), MISUSE, "rank 1 has left the barrier");
    OK(syncline_barrier_free(b));
    OK(syncline_barrier_free(NULL));
}

static void the_library_is_that_of_the_header(void) {
    char version[64];
    snprintf(version, sizeof version, "%d.%d.%d", SYNCLINE_VERSION_MAJOR, SYNCLINE_VERSION_MINOR,
             SYNCLINE_VERSION_PATCH);
    EXPECT(strcmp(version, syncline_version()) == 0);
}

int main(void) {
    the_library_is_that_of_the_header();
    EXPECT(syncline_last_failure() == NULL);
    null_is_an_error();
    handles_go_round_in_their_states();
    one_handle_is_not_for_two_threads_at_once();
    bodies_fail_by_name_and_number();
    what_cannot_run_is_refused();
    signals_say_what_is_wrong();
    for (uint32_t kind = SYNCLINE_BARRIER_KIND_COUNTER; kind <= SYNCLINE_BARRIER_KIND_AUTO; kind++) {
        barriers_say_what_is_wrong(kind);
    }
    puts("all faults were reported");
    return 0;
}
