/* Queue locks of both kinds: mutual exclusion, order, time limits, and a member that dies. Run by
 * tests/c/programs.rs. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "expect.h"

enum { MEMBERS = 4, SECTIONS = 600 };

static syncline_lock *lock;
/* Two members that have been told of a death meet here before one of them recovers the lock. */
static pthread_barrier_t told;
/* The data that the lock guards, in plain variables. */
static long sections, inside;

static void *member(void *argument) {
    size_t rank = (size_t)argument;
    for (int n = 0; n < SECTIONS; n++) {
        syncline_status status;
        switch ((n + rank) % 3) {
        case 0:
            OK(syncline_lock_acquire(lock, rank));
            break;
        case 1:
            while ((status = syncline_lock_try_acquire(lock, rank)) == SYNCLINE_STATUS_NOT_GRANTED) {
                usleep(0);
            }
            OK(status);
            break;
        default:
            while ((status = syncline_lock_acquire_for(lock, rank, 20000)) == SYNCLINE_STATUS_TIMED_OUT) {
            }
            OK(status);
        }
        EXPECT(inside++ == 0);
        sections++;
        inside--;
        OK(syncline_lock_release(lock, rank));
    }
    return NULL;
}

static void one_at_a_time(uint32_t kind) {
    pthread_t threads[MEMBERS];
    sections = 0;
    OK(syncline_lock_new(kind, MEMBERS, &lock));
    for (size_t rank = 0; rank < MEMBERS; rank++) {
        EXPECT(!pthread_create(&threads[rank], NULL, member, (void *)rank));
    }
    for (size_t rank = 0; rank < MEMBERS; rank++) {
        pthread_join(threads[rank], NULL);
    }
    EXPECT(sections == MEMBERS * SECTIONS);
    OK(syncline_lock_free(lock));
}

static void *dies_with_it(void *rank) {
    OK(syncline_lock_acquire(lock, (size_t)rank));
    return NULL; /* without a release */
}

static void *is_told_and_recovers(void *argument) {
    size_t rank = (size_t)argument;
    bool poisoned;
    FAILS(syncline_lock_acquire(lock, rank), GONE, "rank 0 is dead, and the lock may never be free again: call recover");
    pthread_barrier_wait(&told);
    OK(syncline_lock_recover(lock, rank, &poisoned));
    OK(syncline_lock_release(lock, rank));
    return poisoned ? argument : NULL;
}

/* Both waiters are notified and continue; the first of them gets the error that the data may be
 * half changed. */
static void a_death(uint32_t kind) {
    pthread_t dead, living[2];
    void *poisoned[2];
    OK(syncline_lock_new(kind, 3, &lock));
    EXPECT(!pthread_barrier_init(&told, NULL, 2));
    EXPECT(!pthread_create(&dead, NULL, dies_with_it, NULL));
    pthread_join(dead, NULL);
    for (size_t i = 0; i < 2; i++) {
        EXPECT(!pthread_create(&living[i], NULL, is_told_and_recovers, (void *)(i + 1)));
    }
    usleep(10000); /* they most likely wait by now; otherwise they are told as well */
    OK(syncline_lock_declare_dead(lock, 0));
    for (size_t i = 0; i < 2; i++) {
        pthread_join(living[i], &poisoned[i]);
    }
    pthread_barrier_destroy(&told);
    EXPECT((poisoned[0] == NULL) != (poisoned[1] == NULL));
    FAILS(syncline_lock_acquire(lock, 0), MISUSE, "rank 0 was declared dead");
    OK(syncline_lock_acquire(lock, 1));
    /* Another member dies while it holds the lock. */
    bool half_changed;
    OK(syncline_lock_declare_dead(lock, 1));
    FAILS(syncline_lock_acquire(lock, 2), GONE, "rank 1 is dead, and the lock may never be free again: call recover");
    OK(syncline_lock_recover_for(lock, 2, 300000000000, &half_changed));
    EXPECT(half_changed);
    OK(syncline_lock_release(lock, 2));
    OK(syncline_lock_free(lock));
}

static void faults(uint32_t kind) {
    bool poisoned;
    FAILS(syncline_lock_new(kind, 2, NULL), INVALID_ARGUMENT, "lock is NULL");
    FAILS(syncline_lock_new(2, 2, &lock), INVALID_ARGUMENT, "there is no syncline_lock_kind 2");
    FAILS(syncline_lock_new(kind, 0, &lock), INVALID_ARGUMENT, "a barrier or lock has 1 to 4096 members, not 0");
    FAILS(syncline_lock_acquire(NULL, 0), INVALID_ARGUMENT, "the lock is NULL");
    FAILS(syncline_lock_declare_dead(NULL, 0), INVALID_ARGUMENT, "the lock is NULL");
    OK(syncline_lock_new(kind, 2, &lock));
    FAILS(syncline_lock_try_acquire(lock, 2), INVALID_ARGUMENT, "there is no rank 2: the members are ranks 0 to 1");
    FAILS(syncline_lock_release(lock, 0), MISUSE, "rank 0 does not hold the lock");
    FAILS(syncline_lock_recover(lock, 0, NULL), INVALID_ARGUMENT, "poisoned is NULL");
    FAILS(syncline_lock_recover_for(lock, 0, 1000, NULL), INVALID_ARGUMENT, "poisoned is NULL");
    OK(syncline_lock_acquire(lock, 0));
    FAILS(syncline_lock_acquire(lock, 0), MISUSE, "rank 0 holds the lock already");
    FAILS(syncline_lock_recover(lock, 0, &poisoned), MISUSE, "rank 0 holds the lock already");
    FAILS(syncline_lock_release(lock, 1), MISUSE, "rank 1 does not hold the lock");
    FAILS(syncline_lock_try_acquire(lock, 1), NOT_GRANTED, "the lock is not free");
    FAILS(syncline_lock_acquire_for(lock, 1, 1000), TIMED_OUT, "the lock was not free before the deadline");
    FAILS(syncline_lock_recover_for(lock, 1, 1000, &poisoned), TIMED_OUT, "the lock was not free before the deadline");
    FAILS(syncline_lock_free(lock), MISUSE, "rank 0 holds the lock");
    OK(syncline_lock_release(lock, 0));
    OK(syncline_lock_recover(lock, 1, &poisoned)); /* no member has died: same as acquire */
    EXPECT(!poisoned);
    OK(syncline_lock_release(lock, 1));
    OK(syncline_lock_free(lock));
    OK(syncline_lock_free(NULL));
}

int main(void) {
    for (uint32_t kind = SYNCLINE_LOCK_KIND_TICKET; kind <= SYNCLINE_LOCK_KIND_MCS; kind++) {
        faults(kind);
        one_at_a_time(kind);
        a_death(kind);
    }
    puts("one at a time");
    return 0;
}
