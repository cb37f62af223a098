/* A child that the manager of a farm or pool makes by fork() has no part in it: its calls return
 * MISUSE, and however it ends, the manager loses neither a worker nor a message. With an argument,
 * this program is a worker. Run by tests/c/programs.rs. */
#define _POSIX_C_SOURCE 200809L
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { U8 = SYNCLINE_FARM_KIND_U8, LARGE = 1 << 20, SAID_MISUSE = 7 };
static const uint64_t LONG = 300000000000; /* far longer than any wait here takes */

static const char *const NO_FARM =
    "this process is a copy that fork() has made, and so is the farm: only the process that was forked may use it";
static const char *const NO_POOL =
    "this process is a copy that fork() has made, and so is the pool: only the process that was forked may use it";

static void ended_with(pid_t child, int code) {
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

/* Sends every message back, until an empty one. */
static void echo(syncline_farm *farm) {
    for (size_t count = 1; count;) {
        const syncline_farm_message *message;
        OK(syncline_farm_recv_for(farm, SYNCLINE_FARM_MANAGER, LONG, &message));
        count = message->count;
        OK(syncline_farm_send_for(farm, SYNCLINE_FARM_MANAGER, message->kind, message->data, message->count, LONG));
        syncline_farm_message_dispose(message);
    }
}

static int twice(const void *task, size_t length, syncline_farm_result *result, void *context) {
    int n;
    (void)context;
    EXPECT(length == sizeof n);
    memcpy(&n, task, sizeof n);
    n *= 2;
    return syncline_farm_result_set(result, &n, sizeof n) != SYNCLINE_STATUS_OK;
}

static void forked_farm(void) {
    const char *const arguments[] = {"echo", NULL};
    syncline_farm *farm, *own;
    const syncline_farm_message *message, *other;
    syncline_exit_cause cause;
    uint64_t vpid, from, reserved;
    uint32_t pid;
    size_t count;
    char *large = malloc(LARGE), byte = 0;
    OK(syncline_farm_new(NULL, &farm));
    OK(syncline_farm_spawn(farm, NULL, arguments, &vpid));
    OK(syncline_farm_reserve(farm, &reserved));
    memset(large, 'a', LARGE);
    OK(syncline_farm_send_for(farm, vpid, U8, large, LARGE, LONG));
    OK(syncline_farm_recv_for(farm, vpid, LONG, &message));
    pid_t child = fork();
    if (child == 0) {
        FAILS(syncline_farm_reserve(farm, &from), MISUSE, NO_FARM);
        FAILS(syncline_farm_start(farm, reserved, NULL, arguments), MISUSE, NO_FARM);
        FAILS(syncline_farm_spawn(farm, NULL, arguments, &from), MISUSE, NO_FARM);
        FAILS(syncline_farm_send_for(farm, vpid, U8, &byte, 1, LONG), MISUSE, NO_FARM);
        FAILS(syncline_farm_recv_for(farm, vpid, LONG, &other), MISUSE, NO_FARM);
        FAILS(syncline_farm_recv_any_for(farm, LONG, &from, &other), MISUSE, NO_FARM);
        FAILS(syncline_farm_recv_into_for(farm, vpid, U8, &byte, 1, LONG, &count), MISUSE, NO_FARM);
        FAILS(syncline_farm_wait_for(farm, vpid, LONG, &cause), MISUSE, NO_FARM);
        FAILS(syncline_farm_kill(farm, vpid), MISUSE, NO_FARM);
        FAILS(syncline_farm_pid(farm, vpid, &pid), MISUSE, NO_FARM);
        FAILS(syncline_farm_living(farm, &count), MISUSE, NO_FARM);
        EXPECT(syncline_farm_vpid(farm) == SYNCLINE_FARM_MANAGER);
        syncline_farm_message_dispose(message);
        FAILS(syncline_farm_free(farm), MISUSE, NO_FARM);
        OK(syncline_farm_new(NULL, &own));
        OK(syncline_farm_free(own));
        exit(SAID_MISUSE);
    }
    ended_with(child, SAID_MISUSE);
    memset(large, 'b', LARGE);
    OK(syncline_farm_send_for(farm, vpid, U8, large, LARGE, LONG));
    OK(syncline_farm_recv_for(farm, vpid, LONG, &other));
    for (count = 0; count < LARGE; count++)
        EXPECT(((const char *)message->data)[count] == 'a' && ((const char *)other->data)[count] == 'b');
    syncline_farm_message_dispose(message);
    syncline_farm_message_dispose(other);
    OK(syncline_farm_living(farm, &count));
    EXPECT(count == 1);
    OK(syncline_farm_free(farm));
    free(large);
}

static void forked_pool(void) {
    const char *const arguments[] = {"work", NULL};
    syncline_farm_pool *pool;
    const syncline_farm_outcome *outcome;
    syncline_farm_progress progress;
    uint64_t id;
    OK(syncline_farm_pool_new(2, NULL, arguments, NULL, &pool));
    for (int n = 0; n < 20; n++) OK(syncline_farm_pool_submit(pool, &n, sizeof n, 0, 0, NULL));
    OK(syncline_farm_pool_next(pool, &outcome));
    syncline_farm_outcome_dispose(outcome);
    pid_t child = fork();
    if (child == 0) {
        int n = 1;
        FAILS(syncline_farm_pool_submit(pool, &n, sizeof n, 0, 0, &id), MISUSE, NO_POOL);
        FAILS(syncline_farm_pool_next(pool, &outcome), MISUSE, NO_POOL);
        FAILS(syncline_farm_pool_next_for(pool, LONG, &outcome), MISUSE, NO_POOL);
        FAILS(syncline_farm_pool_progress(pool, &progress), MISUSE, NO_POOL);
        FAILS(syncline_farm_pool_finish(pool), MISUSE, NO_POOL);
        FAILS(syncline_farm_pool_free(pool), MISUSE, NO_POOL);
        exit(SAID_MISUSE);
    }
    ended_with(child, SAID_MISUSE);
    for (int n = 1; n < 20; n++) {
        OK(syncline_farm_pool_next(pool, &outcome));
        EXPECT(outcome->status == SYNCLINE_STATUS_OK);
        syncline_farm_outcome_dispose(outcome);
    }
    OK(syncline_farm_pool_progress(pool, &progress));
    EXPECT(progress.ended == 20 && progress.failed == 0 && progress.lost == 0 && progress.retried == 0);
    OK(syncline_farm_pool_free(pool));
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "work") == 0) OK(syncline_farm_serve(twice, NULL));
    if (count > 1) {
        syncline_farm *farm;
        OK(syncline_farm_join(&farm));
        echo(farm);
        return 0;
    }
    forked_farm();
    forked_pool();
    puts("the children had no part");
    return 0;
}
