/* A work queue over one-sided memory, as in codes of chemistry: a shared counter hands out blocks;
 * each block is read from the member that owns it, computed, and added to the result of the member
 * that owns that. No member takes part in the accesses of another, so none waits for a member at
 * work; and blocks of different cost do not unbalance the load.
 *
 *     cc work_queue.c -lsyncline_c -pthread
 *     ./a.out                          threads
 *     syncline launch -n 4 -- ./a.out  processes
 *     ./a.out --hosts 2                two emulated hosts, which exchange messages
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syncline.h"

enum { BLOCKS = 60, LENGTH = 256, RESULTS = 7, BYTES = LENGTH * sizeof(double) };

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

static double input(size_t block, size_t n) { return (double)((block * 31 + n * 7) % 101); }

/* The computation for a block: some blocks take longer than others. All numbers are whole, so the
 * order of sums does not matter. */
static void compute(size_t block, double *values) {
    for (size_t round = 0; round < (block % 10) * (block % 10) + 1; round++) {
        for (size_t n = 0; n < LENGTH; n++) {
            values[n] = fmod(values[n] * 3 + (double)round, 1009);
        }
    }
}

static int member(syncline_member *me, void *argument) {
    size_t rank = syncline_member_rank(me), size = syncline_member_size(me);
    double one = 1, block[LENGTH];
    int64_t next, mine = 0;
    syncline_rma *rma;
    syncline_rma_memory *counter, *blocks, *results;
    (void)argument;

    /* Block b is number b / size of rank b % size; so are the results. The counter belongs to rank
     * 0. */
    TRY(syncline_member_rma(me, &rma));
    TRY(syncline_rma_allocate(rma, rank == 0 ? sizeof next : 0, &counter));
    TRY(syncline_rma_allocate(rma, (BLOCKS + size - 1) / size * BYTES, &blocks));
    TRY(syncline_rma_allocate(rma, (RESULTS + size - 1) / size * BYTES, &results));
    for (size_t b = rank; b < BLOCKS; b += size) {
        for (size_t n = 0; n < LENGTH; n++) {
            block[n] = input(b, n);
        }
        TRY(syncline_rma_put(rma, blocks, rank, b / size * BYTES, block, BYTES));
    }
    TRY(syncline_rma_sync(rma)); /* all blocks are written, and all members are here */

    for (;;) {
        TRY(syncline_rma_fetch_add_i64(rma, counter, 0, 0, 1, &next));
        if (next >= BLOCKS) {
            break;
        }
        size_t b = (size_t)next, r = b % RESULTS;
        TRY(syncline_rma_get(rma, blocks, b % size, b / size * BYTES, block, BYTES));
        compute(b, block);
        TRY(syncline_rma_accumulate(rma, results, r % size, r / size * BYTES, SYNCLINE_RMA_NUMBER_F64, &one, block,
                                    BYTES));
        mine++;
    }
    TRY(syncline_rma_sync(rma)); /* all results are complete */
    fprintf(stderr, "rank %zu of %zu: %lld blocks\n", rank, size, (long long)mine);

    /* A plain loop must give the same results. */
    int wrong = 0;
    for (size_t r = 0; rank == 0 && r < RESULTS; r++) {
        double expected[LENGTH] = {0}, found[LENGTH];
        for (size_t b = r; b < BLOCKS; b += RESULTS) {
            for (size_t n = 0; n < LENGTH; n++) {
                block[n] = input(b, n);
            }
            compute(b, block);
            for (size_t n = 0; n < LENGTH; n++) {
                expected[n] += block[n];
            }
        }
        TRY(syncline_rma_get(rma, results, r % size, r / size * BYTES, found, BYTES));
        wrong += memcmp(found, expected, BYTES) != 0;
    }
    if (rank == 0) {
        printf("%d blocks in %d results: %d wrong\n", BLOCKS, RESULTS, wrong);
    }
    TRY(syncline_rma_deallocate(rma, counter));
    TRY(syncline_rma_deallocate(rma, blocks));
    TRY(syncline_rma_deallocate(rma, results));
    return wrong;
}

int main(int count, char **arguments) {
    syncline_shape hosts = {0, 0, 0, 0};
    if (count > 2 && strcmp(arguments[1], "--hosts") == 0) {
        hosts.hosts = (size_t)atol(arguments[2]);
    }
    /* Without a shape, the environment defines the team. */
    return syncline_team_run(hosts.hosts ? &hosts : NULL, member, NULL) == SYNCLINE_STATUS_OK ? 0 : failed("the team");
}
