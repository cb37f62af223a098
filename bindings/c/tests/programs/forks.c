/* A child that a member makes by fork() is not a member: its calls return MISUSE and change
 * nothing, and however it ends, no state of the member is undone. Members are three threads; with
 * "processes" processes, with "hosts" hosts; with "environment" the environment defines them. Run
 * by tests/c/programs.rs. */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

enum { SAID_MISUSE = 7 };

/* Whether members are on several hosts, and whether those are threads, none of which is the main
 * thread. */
static int hosts, groups;

static int nothing(syncline_member *me, void *argument) {
    (void)me, (void)argument;
    return 0;
}

/* Asserts the failure that a child gets from every call. */
#define NO_MEMBER(call)                                                                                                \
    do {                                                                                                               \
        EXPECT((call) == SYNCLINE_STATUS_MISUSE);                                                                      \
        EXPECT(strcmp(syncline_last_failure()->message, no_member) == 0);                                              \
    } while (0)

static void ended_with(pid_t child, int code) {
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static int member(syncline_member *me, void *argument) {
    static const syncline_shape two = {0, 2, 1 << 20, 0};
    size_t rank = syncline_member_rank(me), size = syncline_member_size(me), next = (rank + 1) % size;
    syncline_rma *rma;
    syncline_rma_memory *memory, *other;
    syncline_rma_mutexes *mutexes;
    syncline_barrier *barrier = NULL;
    syncline_lock *lock = NULL;
    void *shared = NULL;
    char no_member[128];
    int64_t word = 0, seven = 7;
    bool done;
    (void)argument;
    sprintf(no_member, "this process is a child made by fork() of rank %zu's process: it is no member", rank);
    OK(syncline_member_rma(me, &rma));
    OK(syncline_rma_allocate(rma, 64, &memory));
    OK(syncline_rma_mutexes_new(rma, 1, &mutexes));
    if (!hosts) {
        OK(syncline_member_barrier(me, SYNCLINE_BARRIER_KIND_AUTO, 0, &barrier));
        OK(syncline_member_lock(me, SYNCLINE_LOCK_KIND_MCS, &lock));
        OK(syncline_member_memory(me, sizeof(atomic_int), &shared));
    }
    OK(syncline_member_wait(me));
    if (rank == 0) {
        pid_t child;
        if (!hosts) {
            OK(syncline_lock_acquire(lock, rank));
        }
        OK(syncline_rma_lock(rma, mutexes, next, 0));
        OK(syncline_rma_put(rma, memory, next, 8, &seven, 8));
        child = fork();
        if (child == 0) {
            void *pointer;
            NO_MEMBER(syncline_member_wait(me));
            NO_MEMBER(syncline_rma_put(rma, memory, 0, 0, &seven, 8));
            NO_MEMBER(syncline_rma_put(rma, memory, next, 0, &seven, 8));
            NO_MEMBER(syncline_rma_get(rma, memory, next, 0, &word, 8));
            NO_MEMBER(syncline_rma_fetch_add_i64(rma, memory, next, 0, 1, &word));
            NO_MEMBER(syncline_rma_fence(rma, next));
            NO_MEMBER(syncline_rma_fence_all(rma));
            NO_MEMBER(syncline_rma_sync(rma));
            NO_MEMBER(syncline_rma_sync_start(rma));
            NO_MEMBER(syncline_rma_lock(rma, mutexes, 0, 0));
            NO_MEMBER(syncline_rma_unlock(rma, mutexes, next, 0));
            NO_MEMBER(syncline_rma_allocate(rma, 64, &other));
            if (!hosts) {
                NO_MEMBER(syncline_barrier_arrive(barrier, rank));
                NO_MEMBER(syncline_barrier_wait(barrier, rank));
                NO_MEMBER(syncline_lock_release(lock, rank));
                NO_MEMBER(syncline_member_memory(me, 64, &pointer));
                NO_MEMBER(syncline_member_barrier(me, SYNCLINE_BARRIER_KIND_AUTO, 0, &barrier));
                NO_MEMBER(syncline_member_lock(me, SYNCLINE_LOCK_KIND_MCS, &lock));
            }
            /* The child may run a team of its own. */
            OK(syncline_team_run(&two, nothing, NULL));
            NO_MEMBER(syncline_member_wait(me));
            exit(0);
        }
        ended_with(child, 0);
        child = fork();
        if (child == 0) {
            return 0; /* to main; outside the main thread, this ends the child */
        }
        ended_with(child, groups ? 0 : SAID_MISUSE);
        word = 1;
        OK(syncline_rma_get(rma, memory, next, 0, &word, 8));
        EXPECT(word == 0);
        OK(syncline_rma_get(rma, memory, next, 8, &word, 8));
        EXPECT(word == 7);
        OK(syncline_member_wait(me));
        if (!hosts) {
            OK(syncline_lock_release(lock, rank));
        }
        OK(syncline_rma_unlock(rma, mutexes, next, 0));
    } else {
        pid_t child = rank + 1 == size ? fork() : 1;
        if (child == 0) {
            /* The message names the rank among all members, not the rank in the group. */
            NO_MEMBER(syncline_member_wait(me));
            exit(0);
        }
        if (rank + 1 == size) {
            ended_with(child, 0);
        }
        if (!hosts) {
            OK(syncline_barrier_arrive(barrier, rank));
            OK(syncline_barrier_done(barrier, rank, &done));
            EXPECT(!done);
        }
        OK(syncline_member_wait(me));
    }
    if (!hosts) {
        /* A member that has passed a barrier sees everything that all members did before it. */
        struct timespec slowly = {0, rank == 1 ? 50000000 : 0};
        OK(syncline_barrier_wait(barrier, rank));
        nanosleep(&slowly, NULL);
        atomic_fetch_add((atomic_int *)shared, 1);
        OK(syncline_member_wait(me));
        EXPECT(atomic_load((atomic_int *)shared) == (int)size);
        OK(syncline_lock_acquire(lock, rank));
        OK(syncline_lock_release(lock, rank));
    }
    OK(syncline_rma_lock(rma, mutexes, 0, 0));
    OK(syncline_rma_unlock(rma, mutexes, 0, 0));
    OK(syncline_rma_sync(rma));
    return 0;
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    pid_t self = getpid();
    syncline_shape shape = {0, 3, 0, 0};
    syncline_status status;
    if (strcmp(how, "processes") == 0) {
        shape.processes = 3;
        shape.threads = 1;
    }
    groups = strcmp(how, "hosts") == 0;
    hosts = groups || count > 2;
    shape.hosts = groups ? 2 : 0;
    status = syncline_team_run(strcmp(how, "environment") == 0 ? NULL : &shape, member, NULL);
    if (getpid() != self) {
        return status == SYNCLINE_STATUS_MISUSE ? SAID_MISUSE : 1;
    }
    if (status != SYNCLINE_STATUS_OK) {
        fprintf(stderr, "%s\n", syncline_last_failure()->message);
        return 1;
    }
    puts("the children were no members");
    return 0;
}
