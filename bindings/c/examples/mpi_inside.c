/* One-sided memory inside an MPI program: in one irregular phase each process adds to a table that
 * is spread over all of them; the rest of the program does not change.
 *
 *   mpicc mpi_inside.c $(pkg-config --cflags --libs syncline) && mpirun -n 4 ./a.out
 *
 * The first run under an MPI builds the shim with its mpicc.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <syncline.h>

enum { BINS = 50, DRAWS = 20000 };

static void must(syncline_status status)
{
    if (status != 0) {
        fprintf(stderr, "%s\n", syncline_last_failure()->message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The function of every member of the team; `argument` points to the place for its own bins. */
static int phase(syncline_member *me, void *argument)
{
    int64_t *mine = argument;
    size_t rank = syncline_member_rank(me), size = syncline_member_size(me);
    syncline_rma *rma;
    syncline_rma_memory *bins, *last;
    syncline_rma_mutexes *mutexes;
    int64_t one = 1;
    uint64_t draw = rank + 1;

    must(syncline_member_rma(me, &rma));
    must(syncline_rma_allocate(rma, BINS * sizeof *mine, &bins));
    must(syncline_rma_allocate(rma, rank == 0 ? 2 * sizeof *mine : 0, &last));
    must(syncline_rma_mutexes_new(rma, rank == 0 ? 1 : 0, &mutexes));
    for (int n = 0; n < DRAWS; n++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        size_t bin = (size_t)(draw >> 33) % (BINS * size);
        /* The member that owns the bin takes no part. */
        must(syncline_rma_accumulate(rma, bins, bin / BINS, bin % BINS * sizeof one, SYNCLINE_RMA_NUMBER_I64, &one,
                                     &one, sizeof one));
    }
    /* Two numbers that belong together; a mutex guards their update. */
    int64_t pair[2];
    must(syncline_rma_lock(rma, mutexes, 0, 0));
    must(syncline_rma_get(rma, last, 0, 0, pair, sizeof pair));
    pair[0] += 1;
    pair[1] += DRAWS;
    must(syncline_rma_put(rma, last, 0, 0, pair, sizeof pair));
    must(syncline_rma_unlock(rma, mutexes, 0, 0));
    must(syncline_rma_sync(rma)); /* all members have added, and every sum is complete */
    must(syncline_rma_get(rma, bins, rank, 0, mine, BINS * sizeof *mine));
    must(syncline_rma_get(rma, last, 0, 0, pair, sizeof pair));
    if (pair[1] != (int64_t)size * DRAWS || pair[0] != (int64_t)size)
        return 1;
    must(syncline_rma_mutexes_free(rma, mutexes));
    return 0;
}

int main(int argc, char **argv)
{
    int rank, granted;
    int64_t mine[BINS], sum = 0, all = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int turn = 0; turn < 2; turn++) { /* a team may run any number of times */
        must(syncline_team_run_mpi(MPI_Comm_c2f(MPI_COMM_WORLD), NULL, phase, mine));
        sum = 0;
        for (int n = 0; n < BINS; n++)
            sum += mine[n];
        /* MPI is usable as before. */
        MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        printf("%s\n", all == (int64_t)size * DRAWS ? "every draw is in a bin" : "draws were lost");
    MPI_Finalize();
    return all != (int64_t)size * DRAWS;
}
