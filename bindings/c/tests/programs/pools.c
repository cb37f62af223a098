/* Pools of workers of this program: every task ends once, with its result or with the cause of its
 * worker's death. With an argument, this program is only a worker. Run by tests/c/programs.rs, also
 * as the worker of a pool in Rust. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

enum { TASKS = 9 };

static const char context = 'c';

/* The signal that ends a task. It is blocked: a worker may get it before it begins the task. */
static sigset_t told;

/* The first byte of a task selects the operation. */
static int work(const void *task, size_t length, syncline_farm_result *result, void *pointer) {
    const char *text = task;
    char *room;
    void *bytes;
    EXPECT(pointer == &context);
    switch (length ? *text : 'n') {
    case 'e': /* echo */
        OK(syncline_farm_result_set(result, "something else", 14));
        OK(syncline_farm_result_set(result, task, length));
        return 0;
    case 'r': /* the same bytes, reversed, written in place */
        OK(syncline_farm_result_room(result, length, &bytes));
        room = bytes;
        for (size_t n = 0; n < length; n++) {
            EXPECT(room[n] == 0);
            room[n] = text[length - 1 - n];
        }
        return 0;
    case 'f':
        OK(syncline_farm_result_set(result, "half", 4));
        OK(syncline_farm_result_fail(result, "no such luck"));
        return 0;
    case '3':
        return 3;
    case 'x':
        exit(4);
    case 'k':
        raise(SIGKILL);
        return 0;
    case 'h':
        sleep(600);
        return 0;
    case 'u': { /* until it is told */
        int signal;
        EXPECT(sigwait(&told, &signal) == 0);
        return 0;
    }
    case 'p': { /* the process ID */
        int pid = (int)getpid();
        OK(syncline_farm_result_set(result, &pid, sizeof pid));
        return 0;
    }
    case 'm':
        FAILS(syncline_farm_result_set(result, NULL, 1), INVALID_ARGUMENT, "the array of bytes is NULL");
        FAILS(syncline_farm_result_room(result, 1, NULL), INVALID_ARGUMENT, "bytes is NULL");
        FAILS(syncline_farm_result_room(result, SIZE_MAX, &bytes), NO_ROOM,
              "there is no memory for 18446744073709551615 bytes");
        FAILS(syncline_farm_result_fail(result, NULL), INVALID_ARGUMENT, "the text is NULL");
        FAILS(syncline_farm_serve(work, NULL), MISUSE, "process 1 of the farm takes part already");
        OK(syncline_farm_result_set(result, "told", 4));
        return 0;
    default: /* an empty result */
        return 0;
    }
}

static uint64_t submit(syncline_farm_pool *pool, const char *task, int32_t priority, double cost) {
    uint64_t id = 77;
    OK(syncline_farm_pool_submit(pool, task, strlen(task), priority, cost, &id));
    return id;
}

static const syncline_farm_outcome *next(syncline_farm_pool *pool) {
    const syncline_farm_outcome *outcome;
    OK(syncline_farm_pool_next_for(pool, 300000000000, &outcome));
    return outcome;
}

/* Whether an outcome has the status, and either a message or bytes, but not both. */
static bool is_end(const syncline_farm_outcome *outcome, syncline_status status, const char *what) {
    size_t length = strlen(what);
    EXPECT(outcome && outcome->bytes);
    if (outcome->status != status) {
        return false;
    }
    if (status == SYNCLINE_STATUS_OK) {
        return !outcome->error && outcome->length == length && memcmp(outcome->bytes, what, length) == 0;
    }
    return outcome->length == 0 && strlen(outcome->error) >= length &&
           strcmp(outcome->error + strlen(outcome->error) - length, what) == 0;
}

/* Asserts that an outcome is as `is_end` says, and frees it. */
static void ended(const syncline_farm_outcome *outcome, syncline_status status, const char *what) {
    EXPECT(is_end(outcome, status, what));
    syncline_farm_outcome_dispose(outcome);
}

/* Whether all tasks end as they should. A slow machine may need more than the time limit, whose end
 * is told as `late`. */
static bool all_end(const syncline_farm_pool_options *options, const char *late) {
    static const char *const tasks[TASKS] = {"echo", "reverse", "", "fail", "3", "x", "kill", "hang", "echo again"};
    const syncline_farm_outcome *outcomes[TASKS] = {NULL}, *outcome;
    syncline_farm_progress progress;
    syncline_farm_pool *pool;
    OK(syncline_farm_pool_new(2, NULL, NULL, options, &pool));
    for (uint64_t n = 0; n < TASKS; n++) {
        EXPECT(submit(pool, tasks[n], 0, 0) == n);
    }
    while ((outcome = next(pool))) {
        EXPECT(outcome->id < TASKS && !outcomes[outcome->id]);
        outcomes[outcome->id] = outcome;
    }
    OK(syncline_farm_pool_progress(pool, &progress));
    EXPECT(progress.submitted == TASKS && progress.ended == TASKS);
    EXPECT(progress.retried == 0 && progress.started >= 2);
    OK(syncline_farm_pool_finish(pool));
    OK(syncline_farm_pool_free(pool));
    bool so = progress.failed == 3 && progress.lost == 3;
    so &= is_end(outcomes[0], SYNCLINE_STATUS_OK, "echo");
    so &= is_end(outcomes[1], SYNCLINE_STATUS_OK, "esrever");
    so &= is_end(outcomes[2], SYNCLINE_STATUS_OK, "");
    so &= is_end(outcomes[3], SYNCLINE_STATUS_BODY_FAILED, "no such luck");
    so &= is_end(outcomes[4], SYNCLINE_STATUS_BODY_FAILED, "its function returned 3");
    so &= is_end(outcomes[5], SYNCLINE_STATUS_GONE, "exited with 4");
    so &= is_end(outcomes[6], SYNCLINE_STATUS_GONE, "was killed by signal 9");
    so &= is_end(outcomes[7], SYNCLINE_STATUS_TIMED_OUT, late);
    so &= is_end(outcomes[8], SYNCLINE_STATUS_OK, "echo again");
    for (size_t n = 0; n < TASKS; n++) {
        if (!so) {
            fprintf(stderr, "task %d: %s\n", (int)n, outcomes[n]->error ? outcomes[n]->error : "has ended");
        }
        syncline_farm_outcome_dispose(outcomes[n]);
    }
    return so;
}

/* All tasks end as they should with one of the time limits. */
static void all_end_at_last(bool cold) {
    const syncline_farm_pool_options half = {500000000, 0, 0, 0, 0, cold}, ten = {10000000000, 0, 0, 0, 0, cold};
    const syncline_farm_pool_options longest = {120000000000, 0, 0, 0, 0, cold};
    EXPECT(all_end(&half, "it took longer than 500ms") || all_end(&ten, "it took longer than 10s") ||
           all_end(&longest, "it took longer than 120s"));
}

static void the_best_comes_first(void) {
    const syncline_farm_outcome *outcome;
    syncline_farm_pool *pool;
    OK(syncline_farm_pool_new(1, NULL, NULL, NULL, &pool));
    submit(pool, "e last", -1, 9);
    submit(pool, "e small", 0, 1);
    submit(pool, "e large", 0, 2);
    submit(pool, "e first", 1, 0);
    OK(syncline_farm_pool_submit(pool, NULL, 0, 2, 0, NULL));
    ended(next(pool), SYNCLINE_STATUS_OK, "");
    ended(next(pool), SYNCLINE_STATUS_OK, "e first");
    ended(next(pool), SYNCLINE_STATUS_OK, "e large");
    ended(next(pool), SYNCLINE_STATUS_OK, "e small");
    ended(next(pool), SYNCLINE_STATUS_OK, "e last");
    EXPECT(!next(pool));
    submit(pool, "misuse", 0, 0);
    ended(next(pool), SYNCLINE_STATUS_OK, "told");
    /* An outcome outlives its pool; a task that hangs does not. */
    submit(pool, "echo", 0, 0);
    outcome = next(pool);
    submit(pool, "hang", 0, 0);
    const syncline_farm_outcome *none;
    FAILS(syncline_farm_pool_next_for(pool, 10000000, &none), TIMED_OUT, "the deadline passed while waiting for a task to end");
    OK(syncline_farm_pool_free(pool));
    ended(outcome, SYNCLINE_STATUS_OK, "echo");
}

/* Waits until the worker is told. */
static void *wait_for_the_end(void *pool) {
    const syncline_farm_outcome *outcome;
    syncline_status status;
    do {
        status = syncline_farm_pool_next_for(pool, 300000000000, &outcome);
    } while (is_busy(status));
    OK(status);
    ended(outcome, SYNCLINE_STATUS_OK, "");
    return NULL;
}

static void one_thread_at_a_time(void) {
    const char *words = "another call is using the pool at this moment";
    syncline_farm_progress progress;
    syncline_farm_pool *pool;
    pthread_t thread;
    int worker;
    OK(syncline_farm_pool_new(1, NULL, NULL, NULL, &pool));
    submit(pool, "pid", 0, 0);
    const syncline_farm_outcome *outcome = next(pool);
    EXPECT(outcome->status == SYNCLINE_STATUS_OK && outcome->length == sizeof worker);
    memcpy(&worker, outcome->bytes, sizeof worker);
    syncline_farm_outcome_dispose(outcome);
    submit(pool, "until", 0, 0);
    EXPECT(pthread_create(&thread, NULL, wait_for_the_end, pool) == 0);
    while (syncline_farm_pool_progress(pool, &progress) == SYNCLINE_STATUS_OK) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    EXPECT(strcmp(syncline_last_failure()->message, words) == 0);
    FAILS(syncline_farm_pool_submit(pool, NULL, 0, 0, 0, NULL), MISUSE, words);
    FAILS(syncline_farm_pool_finish(pool), MISUSE, words);
    FAILS(syncline_farm_pool_free(pool), MISUSE, words);
    EXPECT(kill((pid_t)worker, SIGUSR1) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    OK(syncline_farm_pool_free(pool));
}

/* Many small tasks, and large ones. */
static void tasks_of_every_size(void) {
    enum { MANY = 5000, LARGE = 3 << 20 };
    char *large = malloc(LARGE), small[16] = "e";
    const syncline_farm_outcome *outcome;
    syncline_farm_pool *pool;
    size_t ended = 0, bytes = 0;
    memset(large, 'e', LARGE);
    OK(syncline_farm_pool_new(3, NULL, NULL, NULL, &pool));
    for (size_t n = 0; n < MANY; n++) {
        OK(syncline_farm_pool_submit(pool, small, n % sizeof small, 0, 0, NULL));
    }
    for (size_t n = 0; n < 5; n++) {
        OK(syncline_farm_pool_submit(pool, large, LARGE - n, 0, 0, NULL));
    }
    while ((outcome = next(pool))) {
        size_t length = outcome->id < MANY ? outcome->id % sizeof small : LARGE - (outcome->id - MANY);
        EXPECT(outcome->status == SYNCLINE_STATUS_OK && outcome->length == length);
        EXPECT(memcmp(outcome->bytes, outcome->id < MANY ? small : large, length) == 0);
        bytes += outcome->length;
        ended++;
        syncline_farm_outcome_dispose(outcome);
    }
    EXPECT(ended == MANY + 5 && bytes > 5 * (size_t)(LARGE - 5));
    OK(syncline_farm_pool_finish(pool));
    FAILS(syncline_farm_pool_finish(pool), MISUSE, "the pool was finished");
    FAILS(syncline_farm_pool_submit(pool, "e", 1, 0, 0, NULL), MISUSE, "the pool was finished");
    OK(syncline_farm_pool_free(pool));
    free(large);
}

static void what_cannot_be_is_told(void) {
    const syncline_farm_pool_options again = {0, 0, 0, 0, 2, false}, small = {0, 0, 1 << 20, 0, 0, false};
    const syncline_farm_pool_options none = {0, 0, 1, 0, 0, false};
    char *large = calloc(1 << 22, 1);
    syncline_farm_pool *pool;
    OK(syncline_farm_pool_new(1, NULL, NULL, &again, &pool));
    submit(pool, "x", 0, 0);
    ended(next(pool), SYNCLINE_STATUS_GONE, "exited with 4 (3 tries)");
    OK(syncline_farm_pool_free(pool));

    OK(syncline_farm_pool_new(1, NULL, NULL, &small, &pool));
    OK(syncline_farm_pool_submit(pool, large, 1 << 22, 0, 0, NULL));
    free(large);
    const syncline_farm_outcome *outcome = next(pool);
    EXPECT(outcome->status == SYNCLINE_STATUS_NO_ROOM && strstr(outcome->error, "it cannot be sent: "));
    syncline_farm_outcome_dispose(outcome);
    OK(syncline_farm_pool_free(pool));
    EXPECT(syncline_farm_pool_new(1, NULL, NULL, &none, &pool) == SYNCLINE_STATUS_INVALID_ARGUMENT);

    OK(syncline_farm_pool_new(1, "/nowhere/to/be/found", NULL, NULL, &pool));
    submit(pool, "echo", 0, 0);
    ended(next(pool), SYNCLINE_STATUS_SYSTEM,
          "cannot start /nowhere/to/be/found: No such file or directory (os error 2)");
    OK(syncline_farm_pool_free(pool));
}

int main(void) {
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    EXPECT(pthread_sigmask(SIG_BLOCK, &told, NULL) == 0);
    OK(syncline_farm_serve(work, (void *)&context));
    all_end_at_last(false);
    all_end_at_last(true);
    the_best_comes_first();
    one_thread_at_a_time();
    tasks_of_every_size();
    what_cannot_be_is_told();
    puts("every task has ended once");
    return 0;
}
