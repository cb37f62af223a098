/* Farms of processes of this program, which are notified when a process ends. With an argument,
 * this program runs a role. Run by tests/c/programs.rs, also as the worker of a manager in Rust. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <unistd.h>

#include "expect.h"

enum { F64 = SYNCLINE_FARM_KIND_F64, U64 = SYNCLINE_FARM_KIND_U64 };
static const uint64_t LONG = 300000000000; /* far longer than any wait here takes */

/* Sends every message back to the process that started this one, until an empty one. */
static void echo(syncline_farm *farm) {
    uint64_t parent = syncline_farm_parent(farm);
    for (size_t count = 1; count;) {
        const syncline_farm_message *message;
        OK(syncline_farm_recv_for(farm, parent, LONG, &message));
        count = message->count;
        OK(syncline_farm_send_for(farm, parent, message->kind, message->data, message->count, LONG));
        syncline_farm_message_dispose(message);
    }
}

static int never(const void *task, size_t length, syncline_farm_result *result, void *context) {
    (void)task, (void)length, (void)result, (void)context;
    return 1;
}

/* Calls that only a manager may make, and calls that may be made once. */
static void misuse(syncline_farm *farm) {
    syncline_farm *again;
    size_t living;
    EXPECT(syncline_farm_vpid(farm) == 1 && syncline_farm_parent(farm) == SYNCLINE_FARM_MANAGER);
    FAILS(syncline_farm_kill(farm, SYNCLINE_FARM_MANAGER), MISUSE, "only the manager can kill processes; this is process 1");
    FAILS(syncline_farm_living(farm, &living), MISUSE, "only the manager can count the live processes; this is process 1");
    FAILS(syncline_farm_join(&again), MISUSE, "process 1 of the farm takes part already");
    FAILS(syncline_farm_serve(never, NULL), MISUSE, "process 1 of the farm takes part already");
    FAILS(syncline_farm_start(farm, 1, NULL, NULL), MISUSE, "process 1 is not reserved, or was started already");
    FAILS(syncline_farm_free(farm), MISUSE, "syncline_farm_leave gives back a farm that was joined");
    OK(syncline_farm_leave(farm));
}

/* Starts a process that echoes, and passes its messages on. */
static void middle(syncline_farm *farm) {
    const char *const arguments[] = {"echo", NULL};
    uint64_t child;
    double number;
    size_t count;
    OK(syncline_farm_spawn(farm, NULL, arguments, &child));
    for (double n = 1; n < 4; n++) {
        OK(syncline_farm_send_for(farm, child, F64, &n, 1, LONG));
        OK(syncline_farm_recv_into_for(farm, child, F64, &number, 1, LONG, &count));
        OK(syncline_farm_send_for(farm, SYNCLINE_FARM_MANAGER, F64, &number, 1, LONG));
    }
    OK(syncline_farm_send_for(farm, child, F64, NULL, 0, LONG));
    OK(syncline_farm_wait_for(farm, child, LONG, NULL));
}

static void work(syncline_farm *farm, const char *role) {
    uint64_t seven = 7;
    if (strcmp(role, "echo") == 0) {
        echo(farm);
    } else if (strcmp(role, "misuse") == 0) {
        misuse(farm);
    } else if (strcmp(role, "middle") == 0) {
        middle(farm);
    } else if (strcmp(role, "seven") == 0) {
        OK(syncline_farm_send_for(farm, SYNCLINE_FARM_MANAGER, U64, &seven, 1, LONG));
        exit(7);
    } else if (strcmp(role, "hang") == 0) {
        OK(syncline_farm_send_for(farm, SYNCLINE_FARM_MANAGER, U64, &seven, 1, LONG));
        sleep(600);
    }
    if (strcmp(role, "misuse") != 0) {
        OK(syncline_farm_leave(farm));
    }
}

/* Starts a process of this program in a role. */
static uint64_t start(syncline_farm *farm, const char *role) {
    const char *arguments[] = {role, NULL};
    uint64_t vpid;
    OK(syncline_farm_reserve(farm, &vpid));
    OK(syncline_farm_start(farm, vpid, NULL, arguments));
    return vpid;
}

static void ends(syncline_farm *farm, uint64_t vpid, uint32_t end, int code) {
    syncline_exit_cause cause = {77, 77};
    OK(syncline_farm_wait_for(farm, vpid, LONG, &cause));
    EXPECT(cause.end == end && cause.code == code);
}

static void messages_come_back(syncline_farm *farm) {
    static const size_t counts[] = {1, 14, 15, 1000, 200000, 0};
    uint64_t vpid = start(farm, "echo");
    double *numbers = malloc(200000 * sizeof *numbers);
    const syncline_farm_message *message;
    for (size_t n = 0; n < 200000; n++) {
        numbers[n] = (double)n / 3;
    }
    for (size_t n = 0; n < 6; n++) {
        OK(syncline_farm_send_for(farm, vpid, F64, numbers, counts[n], LONG));
        OK(syncline_farm_recv_for(farm, vpid, LONG, &message));
        EXPECT(message->kind == F64 && message->count == counts[n] && message->from == vpid);
        EXPECT(memcmp(message->data, numbers, message->bytes) == 0);
        syncline_farm_message_dispose(message);
    }
    free(numbers);
    ends(farm, vpid, SYNCLINE_FARM_END_EXITED, 0);
    FAILS(syncline_farm_recv_for(farm, vpid, LONG, &message), GONE, "process 1 exited with 0");
}

static void ends_are_told(syncline_farm *farm) {
    const syncline_farm_message *message;
    uint64_t from, seven = start(farm, "seven"), hang = start(farm, "hang"), sh, number;
    size_t count, living;
    uint32_t pid;
    const char *const arguments[] = {"-c", "exit 3", NULL};

    /* The messages of a process precede its end, also those for which there was no room. */
    ends(farm, seven, SYNCLINE_FARM_END_EXITED, 7);
    EXPECT(syncline_farm_recv_into_for(farm, seven, U64, NULL, 0, LONG, &count) == SYNCLINE_STATUS_TOO_SMALL);
    OK(syncline_farm_recv_into_for(farm, seven, U64, &number, 1, LONG, &count));
    EXPECT(number == 7 && count == 1);
    EXPECT(syncline_farm_recv_for(farm, seven, LONG, &message) == SYNCLINE_STATUS_GONE);
    EXPECT(syncline_last_failure()->code == 7);

    OK(syncline_farm_recv_into_for(farm, hang, U64, &number, 1, LONG, &count));
    EXPECT(syncline_farm_wait_for(farm, hang, 0, NULL) == SYNCLINE_STATUS_TIMED_OUT);
    OK(syncline_farm_living(farm, &living));
    OK(syncline_farm_pid(farm, hang, &pid));
    EXPECT(living == 1 && pid > 1 && kill((pid_t)pid, 0) == 0);
    OK(syncline_farm_kill(farm, hang));
    EXPECT(syncline_farm_recv_any_for(farm, LONG, &from, &message) == SYNCLINE_STATUS_GONE);
    EXPECT(from == hang && syncline_last_failure()->code == 128 + SIGKILL);
    EXPECT(strstr(syncline_last_failure()->message, "was killed by signal 9"));
    ends(farm, hang, SYNCLINE_FARM_END_KILLED, SIGKILL);
    EXPECT(syncline_farm_send_for(farm, hang, U64, &number, 1, LONG) == SYNCLINE_STATUS_GONE);
    OK(syncline_farm_kill(farm, hang)); /* it has ended already */
    EXPECT(syncline_farm_recv_any_for(farm, LONG, &from, &message) == SYNCLINE_STATUS_ALONE);
    EXPECT(from == SYNCLINE_FARM_NOBODY);

    /* A process that does not join the farm. */
    OK(syncline_farm_spawn(farm, "sh", arguments, &sh));
    EXPECT(syncline_farm_recv_any_for(farm, LONG, &from, &message) == SYNCLINE_STATUS_GONE);
    EXPECT(from == sh && syncline_last_failure()->code == 3);

    /* A program that cannot be started. */
    OK(syncline_farm_reserve(farm, &sh));
    FAILS(syncline_farm_start(farm, sh, "/nowhere/to/be/found", NULL), SYSTEM,
          "cannot start /nowhere/to/be/found: No such file or directory (os error 2)");
    ends(farm, sh, SYNCLINE_FARM_END_NOT_STARTED, 0);
    EXPECT(syncline_farm_start(farm, sh, NULL, NULL) == SYNCLINE_STATUS_MISUSE);
}

static void workers_start_others(syncline_farm *farm) {
    uint64_t vpid = start(farm, "middle");
    double number;
    size_t count;
    for (double n = 1; n < 4; n++) {
        OK(syncline_farm_recv_into_for(farm, vpid, F64, &number, 1, LONG, &count));
        EXPECT(number == n && count == 1);
    }
    ends(farm, vpid, SYNCLINE_FARM_END_EXITED, 0);
}

int main(int count, char **arguments) {
    syncline_farm *farm;
    uint64_t hang;
    uint32_t pid;
    OK(syncline_farm_join(&farm));
    if (farm) {
        work(farm, count > 1 ? arguments[1] : "");
        return 0;
    }
    OK(syncline_farm_new(NULL, &farm));
    ends(farm, start(farm, "misuse"), SYNCLINE_FARM_END_EXITED, 0);
    OK(syncline_farm_free(farm));
    OK(syncline_farm_new(NULL, &farm));
    messages_come_back(farm);
    ends_are_told(farm);
    workers_start_others(farm);
    hang = start(farm, "hang");
    OK(syncline_farm_pid(farm, hang, &pid));
    OK(syncline_farm_free(farm));
    EXPECT(kill((pid_t)pid, 0) != 0); /* no process is left */
    puts("all ends were reported");
    return 0;
}
