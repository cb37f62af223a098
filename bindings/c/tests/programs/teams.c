/* Teams: every failure gives a precise error; with the argument "killed", a process is killed. Run
 * by tests/c/programs.rs. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdint.h>

#include "expect.h"

static const syncline_shape two = {0, 2, 1 << 20, 0};

static int nothing(syncline_member *me, void *argument) {
    (void)me, (void)argument;
    return 0;
}

static int five_of_rank_1(syncline_member *me, void *argument) {
    (void)argument;
    return syncline_member_rank(me) == 1 ? 5 : 0;
}

/* A refused call changes nothing: correct calls continue to work. */
static int faults(syncline_member *me, void *argument) {
    size_t rank = syncline_member_rank(me), other = 1 - rank;
    syncline_barrier *barrier;
    syncline_lock *lock;
    void *memory;
    bool done, poisoned;
    EXPECT(argument == &two && syncline_member_size(me) == 2 && rank < 2);
    EXPECT(syncline_member_process(me) == 0 && syncline_member_processes(me) == 1);
    EXPECT(syncline_member_thread(me) == rank && syncline_member_threads(me) == 2);

    FAILS(syncline_member_barrier(NULL, 0, 0, &barrier), INVALID_ARGUMENT, "the member is NULL");
    FAILS(syncline_member_barrier(me, 9, 0, &barrier), INVALID_ARGUMENT, "there is no syncline_barrier_kind 9");
    FAILS(syncline_member_barrier(me, 0, 2, &barrier), INVALID_ARGUMENT,
          "only a dissemination barrier has a radix: it must be 0");
    FAILS(syncline_member_barrier(me, 0, 0, NULL), INVALID_ARGUMENT, "barrier is NULL");
    FAILS(syncline_member_lock(NULL, 0, &lock), INVALID_ARGUMENT, "the member is NULL");
    FAILS(syncline_member_lock(me, 9, &lock), INVALID_ARGUMENT, "there is no syncline_lock_kind 9");
    FAILS(syncline_member_lock(me, 0, NULL), INVALID_ARGUMENT, "lock is NULL");
    FAILS(syncline_member_memory(NULL, 1, &memory), INVALID_ARGUMENT, "the member is NULL");
    FAILS(syncline_member_memory(me, 1, NULL), INVALID_ARGUMENT, "memory is NULL");
    FAILS(syncline_member_memory(me, 0, &memory), INVALID_ARGUMENT,
          "memory of 0 bytes cannot be shared");
    EXPECT(syncline_member_memory(me, SIZE_MAX, &memory) == SYNCLINE_STATUS_NO_ROOM);
    EXPECT(syncline_member_memory(me, 2 << 20, &memory) == SYNCLINE_STATUS_NO_ROOM);
    FAILS(syncline_member_wait(NULL), INVALID_ARGUMENT, "the member is NULL");
    EXPECT(syncline_member_rank(NULL) == SIZE_MAX);
    FAILS(syncline_team_run(NULL, nothing, NULL), MISUSE,
          rank ? "rank 1 is in a team already: inside it, only a team of threads can be made"
               : "rank 0 is in a team already: inside it, only a team of threads can be made");
    OK(syncline_team_run(&two, nothing, NULL));

    for (uint32_t kind = 0; kind < 4; kind++) {
        OK(syncline_member_barrier(me, kind, 0, &barrier));
        FAILS(syncline_barrier_wait(barrier, 2), INVALID_ARGUMENT, "there is no rank 2: the members are ranks 0 to 1");
        FAILS(syncline_barrier_wait(barrier, other), MISUSE,
              other ? "rank 1 has a pointer to the barrier of its own" : "rank 0 has a pointer to the barrier of its own");
        FAILS(syncline_barrier_free(barrier), MISUSE,
              "the barrier is given back when the function of the member returns");
        for (int n = 0; n < 100; n++) {
            OK(syncline_barrier_arrive(barrier, rank));
            OK(syncline_barrier_done(barrier, rank, &done));
            if (!done) {
                OK(syncline_barrier_wait(barrier, rank));
            }
        }
    }

    OK(syncline_member_memory(me, sizeof(syncline_signal), &memory));
    syncline_signal *raised = memory;
    FAILS(syncline_member_await_for(me, raised, 3, 1000), TIMED_OUT, "the deadline passed");
    FAILS(syncline_member_await_for(me, NULL, 3, 1000), INVALID_ARGUMENT, "the signal is NULL");
    FAILS(syncline_member_await_for(NULL, raised, 3, 1000), INVALID_ARGUMENT, "the member is NULL");
    OK(syncline_signal_add(raised, 1, NULL));
    OK(syncline_member_await(me, raised, 2));

    OK(syncline_member_memory(me, sizeof(long), &memory));
    EXPECT((uintptr_t)memory % 128 == 0);
    long *sum = memory;
    for (uint32_t kind = 0; kind < 2; kind++) {
        OK(syncline_member_lock(me, kind, &lock));
        FAILS(syncline_lock_acquire(lock, 2), INVALID_ARGUMENT, "there is no rank 2: the members are ranks 0 to 1");
        EXPECT(syncline_lock_acquire(lock, other) == SYNCLINE_STATUS_MISUSE);
        FAILS(syncline_lock_declare_dead(lock, rank), MISUSE, "a team declares its dead itself");
        FAILS(syncline_lock_free(lock), MISUSE, "the lock is given back when the function of the member returns");
        for (int n = 0; n < 100; n++) {
            OK(syncline_lock_acquire(lock, rank));
            ++*sum;
            OK(syncline_lock_release(lock, rank));
        }
        OK(syncline_lock_recover(lock, rank, &poisoned)); /* no member is dead: same as acquire */
        EXPECT(!poisoned);
        OK(syncline_lock_release(lock, rank));
        /* The next lock is a different object that guards the same sum. */
        OK(syncline_member_wait(me));
    }
    EXPECT(*sum == 400);
    return 0;
}

/* Members that create different objects get an error, at the latest when they ask for the object.
 */
static int different(syncline_member *me, void *argument) {
    (void)argument;
    void *memory;
    OK(syncline_member_wait(me));
    syncline_status status = syncline_member_memory(me, syncline_member_rank(me) ? 65 : 64, &memory);
    EXPECT(status == SYNCLINE_STATUS_OK || status == SYNCLINE_STATUS_MISUSE);
    EXPECT(status == SYNCLINE_STATUS_OK ||
           strstr(syncline_last_failure()->message, "all members must make the same things in the same order"));
    return status == SYNCLINE_STATUS_OK ? 0 : 3;
}

/* Rank 1 ends while it holds the lock: the other acquires it with the error that the data may be
 * half changed. */
static int with_the_lock(syncline_member *me, void *argument) {
    (void)argument;
    size_t rank = syncline_member_rank(me);
    syncline_lock *lock;
    bool poisoned = false;
    OK(syncline_member_lock(me, SYNCLINE_LOCK_KIND_MCS, &lock));
    if (rank == 1) {
        OK(syncline_lock_acquire(lock, 1));
        OK(syncline_member_wait(me));
        return 0;
    }
    OK(syncline_member_wait(me));
    FAILS(syncline_lock_acquire(lock, 0), POISONED, "the lock is poisoned: rank 1 left its data half changed");
    OK(syncline_lock_recover(lock, 0, &poisoned));
    EXPECT(poisoned);
    OK(syncline_lock_release(lock, 0));
    return 4;
}

/* Rank 1 fails, and rank 0 because of it. */
static int because_of_another(syncline_member *me, void *argument) {
    (void)argument;
    if (syncline_member_rank(me) == 1) {
        return 3;
    }
    return syncline_member_wait(me) == SYNCLINE_STATUS_GONE ? 1 : 0;
}

/* Rank 0 returns too early; the other member gets an error in every wait. */
static int too_early(syncline_member *me, void *argument) {
    (void)argument;
    syncline_barrier *barrier;
    if (syncline_member_rank(me) == 0) {
        return 0;
    }
    OK(syncline_member_barrier(me, SYNCLINE_BARRIER_KIND_COUNTER, 0, &barrier));
    FAILS(syncline_barrier_wait(barrier, 1), GONE, "rank 0 has left");
    EXPECT(syncline_member_wait(me) == SYNCLINE_STATUS_GONE);
    return 0;
}

/* Rank 1 is killed while it holds the lock; the others get an error that names it in every wait,
 * and continue. */
static int killed(syncline_member *me, void *argument) {
    (void)argument;
    size_t rank = syncline_member_rank(me);
    syncline_barrier *barrier;
    syncline_lock *lock;
    bool poisoned;
    void *memory;
    OK(syncline_member_barrier(me, SYNCLINE_BARRIER_KIND_DISSEMINATION, 2, &barrier));
    OK(syncline_member_lock(me, SYNCLINE_LOCK_KIND_TICKET, &lock));
    OK(syncline_member_memory(me, 2 * sizeof(syncline_signal), &memory));
    syncline_signal *recovered = memory, *passed = recovered + 1;
    if (rank == 1) {
        OK(syncline_lock_acquire(lock, 1));
    }
    OK(syncline_barrier_wait(barrier, rank));
    if (rank == 1) {
        /* Its death would end the others' waits in the barrier. */
        OK(syncline_member_await(me, passed, 2));
        raise(SIGKILL);
    }
    OK(syncline_signal_add(passed, 1, NULL));
    FAILS(syncline_member_await(me, recovered, 7), GONE, "rank 1 is dead");
    FAILS(syncline_barrier_wait(barrier, rank), GONE, "rank 1 is dead");
    FAILS(syncline_member_wait(me), GONE, "rank 1 is dead");
    if (rank == 0) {
        FAILS(syncline_lock_acquire(lock, 0), GONE, "rank 1 is dead, and the lock may never be free again: call recover");
        OK(syncline_lock_recover(lock, 0, &poisoned));
        EXPECT(poisoned);
        OK(syncline_lock_release(lock, 0));
        OK(syncline_signal_raise_to(recovered, 1));
        return 0;
    }
    OK(syncline_signal_wait(recovered, 1));
    OK(syncline_lock_recover(lock, rank, &poisoned));
    EXPECT(!poisoned);
    OK(syncline_lock_release(lock, rank));
    return 0;
}

static void a_process_is_killed(void) {
    const syncline_shape three = {3, 1, 0, 0};
    syncline_status status = syncline_team_run(&three, killed, NULL);
    if (status == SYNCLINE_STATUS_OK) {
        exit(0); /* a member, which has been notified */
    }
    EXPECT(status == SYNCLINE_STATUS_MEMBER_FAILED && syncline_last_failure()->code == 128 + SIGKILL);
    EXPECT(strstr(syncline_last_failure()->message, "rank 1) was killed by signal 9 in the middle of the run"));
    puts("the killed rank was named");
}

int main(int count, char **arguments) {
    const syncline_shape too_many = {0, 4097, 0, 0}, small = {0, 2, 1, 0};
    const syncline_shape largest = {0, 2, SIZE_MAX, 0};
    if (count > 1 && strcmp(arguments[1], "killed") == 0) {
        a_process_is_killed();
        return 0;
    }
    FAILS(syncline_team_run(&two, NULL, NULL), INVALID_ARGUMENT, "the function of the team is NULL");
    FAILS(syncline_team_run(&too_many, nothing, NULL), INVALID_ARGUMENT,
          "a team has 1 to 4096 members, not 1 processes x 4097 threads");
    EXPECT(syncline_team_run(&small, nothing, NULL) == SYNCLINE_STATUS_NO_ROOM);
    EXPECT(syncline_team_run(&largest, nothing, NULL) == SYNCLINE_STATUS_NO_ROOM);
    OK(syncline_team_run(&two, nothing, NULL));
    FAILS(syncline_team_run(&two, five_of_rank_1, NULL), MEMBER_FAILED, "rank 1 returned 5");
    EXPECT(syncline_last_failure()->code == 5 && syncline_last_failure()->task == NULL);
    FAILS(syncline_team_run(&two, because_of_another, NULL), MEMBER_FAILED, "rank 1 returned 3");
    EXPECT(syncline_last_failure()->code == 3);
    OK(syncline_team_run(&two, faults, (void *)&two));
    EXPECT(syncline_team_run(&two, different, NULL) == SYNCLINE_STATUS_MEMBER_FAILED);
    EXPECT(syncline_last_failure()->code == 3);
    FAILS(syncline_team_run(&two, with_the_lock, NULL), MISUSE, "rank 1 returned while it held a lock");
    OK(syncline_team_run(&two, too_early, NULL));
    setenv("SYNCLINE_THREADS", "none", 1);
    FAILS(syncline_team_run(NULL, nothing, NULL), INVALID_ARGUMENT,
          "the environment variable SYNCLINE_THREADS is \"none\": expected a number of threads from 1 to 4096");
    setenv("SYNCLINE_THREADS", "1", 1);
    OK(syncline_team_run(NULL, nothing, NULL));
    puts("all members were notified");
    return 0;
}
