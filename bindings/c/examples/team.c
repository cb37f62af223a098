/* One function run by all members of a team: threads, processes, or threads of processes, with the
 * same result.
 *
 *     cc team.c -lsyncline_c -pthread
 *     ./a.out                          threads: one per core, or SYNCLINE_THREADS
 *     syncline launch -n 3 -- ./a.out  three processes
 *     ./a.out 3 2                      three processes of two threads, started by the program
 *
 * Each member writes its part of a shared array and sums the part that the next member has written.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "syncline.h"

enum { NUMBERS = 100000, ROUNDS = 20 };

/* The data that the lock guards. */
struct total {
    uint64_t sum;
};

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, syncline_last_failure()->message);
    return 1;
}

#define TRY(call)                                                                                               \
    do {                                                                                                        \
        if ((call) != SYNCLINE_STATUS_OK) {                                                                     \
            return failed(#call);                                                                               \
        }                                                                                                       \
    } while (0)

static int member(syncline_member *me, void *argument) {
    const uint64_t *factor = argument;
    size_t rank = syncline_member_rank(me), size = syncline_member_size(me), next = (rank + 1) % size;
    uint64_t expected = 0;
    syncline_barrier *barrier;
    syncline_lock *lock;
    void *memory;

    /* All members create the same objects in the same order. The objects are freed when this
     * function returns. */
    TRY(syncline_member_barrier(me, SYNCLINE_BARRIER_KIND_AUTO, 0, &barrier));
    TRY(syncline_member_lock(me, SYNCLINE_LOCK_KIND_MCS, &lock));
    TRY(syncline_member_memory(me, NUMBERS * sizeof(uint64_t), &memory));
    uint64_t *numbers = memory;
    TRY(syncline_member_memory(me, sizeof(struct total), &memory));
    struct total *total = memory;

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t sum = 0;
        for (size_t n = rank; n < NUMBERS; n += size) {
            numbers[n] = *factor * round * n;
        }
        TRY(syncline_barrier_wait(barrier, rank)); /* all parts are written */
        for (size_t n = next; n < NUMBERS; n += size) {
            sum += numbers[n];
        }
        TRY(syncline_lock_acquire(lock, rank));
        total->sum += sum;
        TRY(syncline_lock_release(lock, rank));
        TRY(syncline_member_wait(me)); /* all have read; the team has a barrier of its own */
        expected += *factor * round * NUMBERS * (NUMBERS - 1) / 2;
    }
    if (rank == 0) {
        fprintf(stderr, "%zu members in %zu processes\n", size, syncline_member_processes(me));
        printf("%llu, expected %llu\n", (unsigned long long)total->sum, (unsigned long long)expected);
    }
    return total->sum == expected ? 0 : 2;
}

int main(int count, char **arguments) {
    uint64_t factor = 3;
    syncline_shape shape = {0, 0, 0, 0};
    if (count > 1) {
        shape.processes = (size_t)atol(arguments[1]);
        shape.threads = count > 2 ? (size_t)atol(arguments[2]) : 1;
    }
    /* Without a shape, the environment defines the team. A process that was started should only
     * return its exit code after its part: further work is for the process that started it. */
    if (syncline_team_run(count > 1 ? &shape : NULL, member, &factor) != SYNCLINE_STATUS_OK) {
        return failed("the team");
    }
    return 0;
}
