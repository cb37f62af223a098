/* A computation that continues without the processes that have died, from the last step that all
 * survivors have completed.
 *
 *   cc survivors.c $(pkg-config --cflags --libs syncline) && mpirun --with-ft ulfm -n 4 ./a.out
 *
 * To demonstrate this, the last process kills itself half way. The job ends then unless its MPI
 * survives the death of a process (Open MPI 5).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <syncline.h>

enum { STEPS = 100, WORK = 60 };

/* The state that a process keeps when others die: here the steps that it has completed, in a real
 * program also its part of the data. */
struct kept {
    uint64_t done;
    uint64_t sum;
    size_t died;
};

#define TRY(call)                      \
    do {                               \
        if ((call) != 0) return 1;     \
    } while (0)

static int work(syncline_member *me, void *argument)
{
    struct kept *kept = argument;
    size_t rank = syncline_member_rank(me), size = syncline_member_size(me);
    syncline_rma *rma;
    syncline_rma_memory *progress;

    /* Finds the step that all have completed: survivors may be a step apart. */
    TRY(syncline_member_rma(me, &rma));
    TRY(syncline_rma_allocate(rma, sizeof kept->done, &progress));
    TRY(syncline_rma_put(rma, progress, rank, 0, &kept->done, sizeof kept->done));
    TRY(syncline_rma_sync(rma));
    for (size_t other = 0; other < size; other++) {
        uint64_t done;
        TRY(syncline_rma_get(rma, progress, other, 0, &done, sizeof done));
        if (done < kept->done)
            kept->done = done;
    }
    TRY(syncline_rma_sync(rma)); /* all have read: the memory is free for sums */
    kept->died = syncline_member_died(me);

    while (kept->done < STEPS) {
        uint64_t step = kept->done, sum = 0;
        if (step == STEPS / 2 && kept->died == 0 && size > 1 && rank == size - 1)
            raise(SIGKILL);
        /* The survivors share the items. */
        for (uint64_t item = rank; item < WORK; item += size)
            sum += step * item;
        TRY(syncline_rma_put(rma, progress, rank, 0, &sum, sizeof sum));
        TRY(syncline_rma_sync(rma));
        kept->sum = 0;
        for (size_t other = 0; other < size; other++) {
            TRY(syncline_rma_get(rma, progress, other, 0, &sum, sizeof sum));
            kept->sum += sum;
        }
        TRY(syncline_rma_sync(rma));
        kept->done = step + 1;
    }
    if (rank == 0 && kept->sum == (uint64_t)(STEPS - 1) * WORK * (WORK - 1) / 2)
        printf("%d steps done, the last of them by %zu, %zu died\n", STEPS, size, kept->died);
    return 0;
}

int main(void)
{
    struct kept kept = {0, 0, 0};

    if (syncline_team_run_shrinking(work, &kept) != 0) {
        fprintf(stderr, "%s\n", syncline_last_failure()->message);
        return 1;
    }
    return 0;
}
