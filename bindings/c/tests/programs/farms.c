/* Farms and pools: every failure gives a precise error, and no message is lost. No process is
 * started here: see farm_processes.c for that. Run by tests/c/programs.rs. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

enum { F64 = SYNCLINE_FARM_KIND_F64, U8 = SYNCLINE_FARM_KIND_U8 };
static const uint64_t ME = SYNCLINE_FARM_MANAGER;

static syncline_farm *farm_of(size_t processes, size_t memory, size_t depth) {
    const syncline_farm_bounds bounds = {processes, memory, 0, depth};
    syncline_farm *farm;
    OK(syncline_farm_new(&bounds, &farm));
    return farm;
}

static void null_is_an_error(void) {
    syncline_farm *farm = farm_of(0, 0, 0), *none = NULL;
    syncline_farm_pool *pool;
    const syncline_farm_message *message;
    const syncline_farm_outcome *outcome;
    syncline_farm_progress progress;
    uint64_t vpid;
    uint32_t pid;
    size_t count;
    void *bytes;
    FAILS(syncline_farm_new(NULL, NULL), INVALID_ARGUMENT, "farm is NULL");
    FAILS(syncline_farm_join(NULL), INVALID_ARGUMENT, "farm is NULL");
    OK(syncline_farm_free(NULL));
    OK(syncline_farm_leave(NULL));
    EXPECT(syncline_farm_vpid(NULL) == SYNCLINE_FARM_NOBODY && syncline_farm_parent(NULL) == SYNCLINE_FARM_NOBODY);
    EXPECT(strcmp(syncline_last_failure()->message, "the farm is NULL") == 0);
    FAILS(syncline_farm_reserve(none, &vpid), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_reserve(farm, NULL), INVALID_ARGUMENT, "vpid is NULL");
    FAILS(syncline_farm_start(none, 1, "true", NULL), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_start(farm, 1, "", NULL), INVALID_ARGUMENT, "the name of the program is empty");
    FAILS(syncline_farm_spawn(none, "true", NULL, &vpid), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_spawn(farm, "true", NULL, NULL), INVALID_ARGUMENT, "vpid is NULL");
    FAILS(syncline_farm_wait_for(none, ME, 0, NULL), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_kill(none, ME), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_pid(none, ME, &pid), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_pid(farm, ME, NULL), INVALID_ARGUMENT, "pid is NULL");
    FAILS(syncline_farm_living(none, &count), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_living(farm, NULL), INVALID_ARGUMENT, "living is NULL");
    FAILS(syncline_farm_send_for(none, ME, U8, "", 1, 0), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_send_for(farm, ME, U8, NULL, 1, 0), INVALID_ARGUMENT, "what is to be sent is NULL");
    FAILS(syncline_farm_recv_for(none, ME, 0, &message), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_recv_for(farm, ME, 0, NULL), INVALID_ARGUMENT, "message is NULL");
    FAILS(syncline_farm_recv_any_for(none, 0, NULL, &message), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_recv_any_for(farm, 0, NULL, NULL), INVALID_ARGUMENT, "message is NULL");
    FAILS(syncline_farm_recv_into_for(none, ME, U8, &pid, 1, 0, &count), INVALID_ARGUMENT, "the farm is NULL");
    FAILS(syncline_farm_recv_into_for(farm, ME, U8, NULL, 1, 0, &count), INVALID_ARGUMENT, "to is NULL");
    FAILS(syncline_farm_recv_into_for(farm, ME, U8, &pid, 1, 0, NULL), INVALID_ARGUMENT, "count is NULL");
    syncline_farm_message_dispose(NULL);
    OK(syncline_farm_free(farm));

    FAILS(syncline_farm_pool_new(1, NULL, NULL, NULL, NULL), INVALID_ARGUMENT, "pool is NULL");
    FAILS(syncline_farm_pool_submit(NULL, NULL, 0, 0, 0, NULL), INVALID_ARGUMENT, "the pool is NULL");
    FAILS(syncline_farm_pool_next_for(NULL, 0, &outcome), INVALID_ARGUMENT, "the pool is NULL");
    FAILS(syncline_farm_pool_progress(NULL, &progress), INVALID_ARGUMENT, "the pool is NULL");
    FAILS(syncline_farm_pool_finish(NULL), INVALID_ARGUMENT, "the pool is NULL");
    OK(syncline_farm_pool_free(NULL));
    syncline_farm_outcome_dispose(NULL);
    FAILS(syncline_farm_serve(NULL, NULL), INVALID_ARGUMENT, "the function of the worker is NULL");
    FAILS(syncline_farm_result_set(NULL, "", 1), INVALID_ARGUMENT, "the result is NULL");
    FAILS(syncline_farm_result_room(NULL, 1, &bytes), INVALID_ARGUMENT, "the result is NULL");
    FAILS(syncline_farm_result_room(NULL, 1, NULL), INVALID_ARGUMENT, "bytes is NULL");
    FAILS(syncline_farm_result_fail(NULL, "no"), INVALID_ARGUMENT, "the result is NULL");

    OK(syncline_farm_pool_new(1, NULL, NULL, NULL, &pool));
    FAILS(syncline_farm_pool_submit(pool, NULL, 1, 0, 0, NULL), INVALID_ARGUMENT, "the task is NULL");
    FAILS(syncline_farm_pool_submit(pool, NULL, 0, 0, strtod("nan", NULL), NULL), INVALID_ARGUMENT,
          "the cost of the task is not a number");
    FAILS(syncline_farm_pool_next_for(pool, 0, NULL), INVALID_ARGUMENT, "outcome is NULL");
    FAILS(syncline_farm_pool_progress(pool, NULL), INVALID_ARGUMENT, "progress is NULL");
    OK(syncline_farm_pool_next(pool, &outcome));
    EXPECT(!outcome); /* no task was submitted */
    OK(syncline_farm_pool_finish(pool));
    OK(syncline_farm_pool_free(pool));
}

static void bounds_are_looked_at(void) {
    const syncline_farm_bounds one = {1, 0, 0, 0}, shallow = {0, 1, 0, 0}, deep = {0, 0, 0, SIZE_MAX};
    syncline_farm *farm;
    syncline_farm_pool *pool;
    uint64_t vpid;
    FAILS(syncline_farm_new(&one, &farm), INVALID_ARGUMENT,
          "the number of processes of a farm must be from 2 to 16384, not 1");
    EXPECT(syncline_farm_new(&shallow, &farm) == SYNCLINE_STATUS_INVALID_ARGUMENT);
    EXPECT(syncline_farm_new(&deep, &farm) == SYNCLINE_STATUS_INVALID_ARGUMENT);
    FAILS(syncline_farm_pool_new(0, NULL, NULL, NULL, &pool), INVALID_ARGUMENT,
          "the number of workers of a pool must be from 1 to 1024, not 0");
    FAILS(syncline_farm_pool_new(1, "", NULL, NULL, &pool), INVALID_ARGUMENT, "the name of the program is empty");

    farm = farm_of(2, 1 << 16, 0);
    OK(syncline_farm_reserve(farm, &vpid));
    EXPECT(vpid == 1);
    EXPECT(syncline_farm_reserve(farm, &vpid) == SYNCLINE_STATUS_NO_ROOM);
    EXPECT(strstr(syncline_last_failure()->message, "all places of the farm (2) are taken"));
    char *large = calloc(1 << 20, 1);
    EXPECT(syncline_farm_send_for(farm, ME, U8, large, 1 << 20, 0) == SYNCLINE_STATUS_NO_ROOM);
    EXPECT(strstr(syncline_last_failure()->message, "are free for a message in the farm's memory"));
    free(large);
    OK(syncline_farm_free(farm));
}

static void numbers_of_processes_are_looked_at(void) {
    syncline_farm *farm = farm_of(0, 0, 0);
    const syncline_farm_message *message;
    size_t count;
    uint32_t pid;
    char byte = 0;
    const char *unknown = "there is no process 99 in this farm";
    FAILS(syncline_farm_start(farm, 99, "true", NULL), INVALID_ARGUMENT, unknown);
    FAILS(syncline_farm_send_for(farm, 99, U8, &byte, 1, 0), INVALID_ARGUMENT, unknown);
    FAILS(syncline_farm_recv_for(farm, 99, 0, &message), INVALID_ARGUMENT, unknown);
    FAILS(syncline_farm_recv_into_for(farm, 99, U8, &byte, 1, 0, &count), INVALID_ARGUMENT, unknown);
    FAILS(syncline_farm_wait_for(farm, 99, 0, NULL), INVALID_ARGUMENT, unknown);
    FAILS(syncline_farm_kill(farm, 99), INVALID_ARGUMENT, unknown);
    FAILS(syncline_farm_pid(farm, 99, &pid), INVALID_ARGUMENT, unknown);
    EXPECT(syncline_farm_wait_for(farm, SYNCLINE_FARM_NOBODY, 0, NULL) == SYNCLINE_STATUS_INVALID_ARGUMENT);
    FAILS(syncline_farm_start(farm, ME, "true", NULL), MISUSE,
          "process 0 is not reserved, or was started already");
    OK(syncline_farm_pid(farm, ME, &pid));
    EXPECT(pid == (uint32_t)getpid());
    FAILS(syncline_farm_wait_for(farm, ME, 0, NULL), TIMED_OUT, "the deadline passed while waiting for the end of process 0");
    FAILS(syncline_farm_wait(farm, ME, NULL), MISUSE, "process 0 cannot wait for its own end");
    FAILS(syncline_farm_recv(farm, ME, &message), MISUSE, "process 0 cannot wait for a message from itself");
    FAILS(syncline_farm_kill(farm, ME), MISUSE, "process 0 cannot kill itself: it can exit");
    OK(syncline_farm_free(farm));
}

/* Every kind arrives as it was sent, small or large, and in place. */
static void kinds(void) {
    static const size_t sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 4, 8, sizeof(size_t), sizeof(size_t)};
    static unsigned char bytes[16 * 5000];
    syncline_farm *farm = farm_of(0, 0, 0);
    const syncline_farm_message *message, *last = NULL;
    for (size_t n = 0; n < sizeof bytes; n++) {
        bytes[n] = (unsigned char)(n * 7);
    }
    for (uint32_t kind = 0; kind < 15; kind++) {
        for (size_t count = 0; count < 6000; count = count * 5 + 1) {
            uint64_t from = 77;
            OK(syncline_farm_send_for(farm, ME, kind, count ? bytes : NULL, count, 0));
            OK(syncline_farm_recv_any_for(farm, 0, &from, &message));
            EXPECT(from == ME && message->from == ME && message->kind == kind && message->count == count);
            EXPECT(message->bytes == count * sizes[kind] && (uintptr_t)message->data % 16 == 0);
            EXPECT(memcmp(message->data, bytes, message->bytes) == 0);
            syncline_farm_message_dispose(last);
            last = message;
        }
    }
    FAILS(syncline_farm_send_for(farm, ME, 15, bytes, 1, 0), INVALID_ARGUMENT, "there is no syncline_farm_kind 15");
    FAILS(syncline_farm_send_for(farm, ME, F64, bytes, SIZE_MAX, 0), INVALID_ARGUMENT,
          "18446744073709551615 numbers f64 do not fit into memory");
    EXPECT(syncline_farm_send_for(farm, ME, U8, bytes, SIZE_MAX, 0) == SYNCLINE_STATUS_INVALID_ARGUMENT);
    OK(syncline_farm_free(farm));
    /* The message is still valid. */
    EXPECT(memcmp(last->data, bytes, last->bytes) == 0);
    syncline_farm_message_dispose(last);
}

/* A message that does not fit, or is of another kind, stays the next to be received. */
static void nothing_is_lost(void) {
    const double sent[3] = {1.5, 2.5, 3.5};
    double received[3] = {0, 0, 0};
    int32_t wrong[3];
    size_t count = 77;
    uint64_t from = 77;
    const syncline_farm_message *message;
    syncline_farm *farm = farm_of(0, 0, 2);
    FAILS(syncline_farm_recv_for(farm, ME, 0, &message), TIMED_OUT, "the deadline passed while waiting for a message from process 0");
    FAILS(syncline_farm_recv_any_for(farm, 0, &from, &message), ALONE,
          "no process of the farm is left that could send anything");
    EXPECT(from == SYNCLINE_FARM_NOBODY);
    OK(syncline_farm_send_for(farm, ME, F64, sent, 3, 0));
    OK(syncline_farm_send_for(farm, ME, F64, sent, 1, 0));
    FAILS(syncline_farm_send_for(farm, ME, F64, sent, 1, 1000), TIMED_OUT,
          "the deadline passed while waiting for process 0 to receive what it was sent before");
    FAILS(syncline_farm_recv_into_for(farm, ME, F64, received, 2, 0, &count), TOO_SMALL,
          "a message from process 0 has 3 elements, and there is room for 2");
    EXPECT(count == 3 && received[0] == 0);
    FAILS(syncline_farm_recv_into_for(farm, ME, F64, NULL, 0, 0, &count), TOO_SMALL,
          "a message from process 0 has 3 elements, and there is room for 0");
    FAILS(syncline_farm_recv_into_for(farm, ME, SYNCLINE_FARM_KIND_I32, wrong, 3, 0, &count), GARBLED,
          "a message from process 0 is numbers f64, not numbers i32");
    FAILS(syncline_farm_recv_into_for(farm, ME, 15, wrong, 3, 0, &count), INVALID_ARGUMENT,
          "there is no syncline_farm_kind 15");
    OK(syncline_farm_recv_into_for(farm, ME, F64, received, 3, 0, &count));
    EXPECT(count == 3 && memcmp(received, sent, sizeof sent) == 0);
    EXPECT(syncline_farm_recv_into_for(farm, ME, F64, received, 0, 0, &count) == SYNCLINE_STATUS_TOO_SMALL);
    OK(syncline_farm_recv_any_for(farm, 0, &from, &message));
    EXPECT(from == ME && message->count == 1 && *(const double *)message->data == 1.5);
    syncline_farm_message_dispose(message);
    OK(syncline_farm_send_for(farm, ME, F64, NULL, 0, 0));
    OK(syncline_farm_recv_into_for(farm, ME, F64, NULL, 0, 0, &count));
    EXPECT(count == 0);
    /* A message that is kept when the farm is freed is freed with it. */
    OK(syncline_farm_send_for(farm, ME, F64, sent, 3, 0));
    EXPECT(syncline_farm_recv_into_for(farm, ME, U8, received, 3, 0, &count) == SYNCLINE_STATUS_GARBLED);
    OK(syncline_farm_free(farm));
}

/* A wait for a message that does not come. */
struct vain {
    syncline_farm *farm;
    uint64_t nanoseconds;
    pthread_mutex_t mutex;
    bool over;
};

static void *wait_in_vain(void *argument) {
    struct vain *vain = argument;
    const syncline_farm_message *message;
    syncline_status status;
    do {
        status = syncline_farm_recv_for(vain->farm, ME, vain->nanoseconds, &message);
    } while (is_busy(status));
    EXPECT(status == SYNCLINE_STATUS_TIMED_OUT);
    pthread_mutex_lock(&vain->mutex);
    vain->over = true;
    pthread_mutex_unlock(&vain->mutex);
    return NULL;
}

static bool is_over(struct vain *vain) {
    pthread_mutex_lock(&vain->mutex);
    bool over = vain->over;
    pthread_mutex_unlock(&vain->mutex);
    return over;
}

/* Whether calls during the wait of another thread were refused: a slow machine may make them after
 * it. */
static bool is_alone_for(uint64_t nanoseconds) {
    struct vain vain = {farm_of(0, 0, 0), nanoseconds, PTHREAD_MUTEX_INITIALIZER, false};
    pthread_t thread;
    syncline_status status = SYNCLINE_STATUS_OK;
    uint32_t pid;
    EXPECT(pthread_create(&thread, NULL, wait_in_vain, &vain) == 0);
    while (!is_over(&vain) && (status = syncline_farm_pid(vain.farm, ME, &pid)) == SYNCLINE_STATUS_OK) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    if (status == SYNCLINE_STATUS_OK) {
        EXPECT(pthread_join(thread, NULL) == 0);
        OK(syncline_farm_free(vain.farm));
        return false;
    }
    EXPECT(status == SYNCLINE_STATUS_MISUSE);
    EXPECT(strcmp(syncline_last_failure()->message, "another call is using the farm at this moment") == 0);
    EXPECT(syncline_farm_vpid(vain.farm) == ME && syncline_farm_parent(vain.farm) == SYNCLINE_FARM_NOBODY);
    /* After the wait, this frees the farm. */
    status = syncline_farm_free(vain.farm);
    if (status != SYNCLINE_STATUS_OK) {
        EXPECT(status == SYNCLINE_STATUS_MISUSE);
        EXPECT(strcmp(syncline_last_failure()->message, "another call is using the farm at this moment") == 0);
    }
    EXPECT(pthread_join(thread, NULL) == 0);
    if (status == SYNCLINE_STATUS_OK) {
        return false;
    }
    OK(syncline_farm_free(vain.farm));
    return true;
}

static void one_thread_at_a_time(void) {
    EXPECT(is_alone_for(500000000) || is_alone_for(5000000000) || is_alone_for(120000000000));
}

static int never(const void *task, size_t length, syncline_farm_result *result, void *context) {
    (void)task, (void)length, (void)result, (void)context;
    fail(__LINE__, "this is no worker");
    return 1;
}

int main(void) {
    syncline_farm *farm = (syncline_farm *)&farm;
    size_t living = 77;
    setenv("SYNCLINE_FARM", "version=2 nonsense", 1);
    FAILS(syncline_farm_join(&farm), INVALID_ARGUMENT,
          "SYNCLINE_FARM is \"version=2 nonsense\": \"nonsense\" stands where memory= is expected");
    EXPECT(syncline_farm_serve(never, NULL) == SYNCLINE_STATUS_INVALID_ARGUMENT);
    unsetenv("SYNCLINE_FARM");
    /* This process is not a worker: join does nothing. */
    OK(syncline_farm_join(&farm));
    EXPECT(farm == NULL);
    OK(syncline_farm_serve(never, NULL));
    null_is_an_error();
    bounds_are_looked_at();
    numbers_of_processes_are_looked_at();
    kinds();
    nothing_is_lost();
    one_thread_at_a_time();
    OK(syncline_farm_new(NULL, &farm));
    OK(syncline_farm_living(farm, &living));
    EXPECT(living == 0);
    FAILS(syncline_farm_leave(farm), MISUSE, "syncline_farm_free gives back a farm that was founded");
    OK(syncline_farm_free(farm));
    puts("nothing was lost");
    return 0;
}
