/* Misuse of MPI by the program has a status of its own, which differs from that of an internal
 * error of the library. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syncline.h>

static int nothing(syncline_member *me, void *argument)
{
    (void)me, (void)argument;
    return 0;
}

static int rank;

static void is(syncline_status found, syncline_status expected, const char *words)
{
    const syncline_failure *last = syncline_last_failure();
    if (found != expected || (words && !strstr(last->message, words))) {
        fprintf(stderr, "rank %d: %s, not %s: %s\n", rank, syncline_status_text(found), syncline_status_text(expected),
                last ? last->message : "");
        exit(1);
    }
}

static void *elsewhere(void *level)
{
    /* Calls of MPI from a thread other than the main thread. */
    if (*(int *)level < MPI_THREAD_SERIALIZED)
        is(syncline_team_run_mpi(MPI_Comm_c2f(MPI_COMM_SELF), NULL, nothing, NULL), SYNCLINE_STATUS_THREAD_LEVEL,
           "MPI_THREAD_");
    return NULL;
}

int main(int argc, char **argv)
{
    const syncline_shape two = {0, 2, 0, 0};
    int level, has_shim = argc > 1;
    MPI_Comm none = MPI_COMM_NULL, part, between;
    pthread_t thread;

    /* The library never initialises the program's MPI. */
    if (has_shim)
        is(syncline_team_run_mpi(0, NULL, nothing, NULL), SYNCLINE_STATUS_MISUSE, "MPI is not initialised");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!has_shim) {
        is(syncline_team_run_mpi(MPI_Comm_c2f(MPI_COMM_WORLD), NULL, nothing, NULL), SYNCLINE_STATUS_NO_MPI,
           "there is no shim for it");
    } else {
        /* Processes in no part of the split have MPI_COMM_NULL. */
        MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 1 : MPI_UNDEFINED, 0, &none);
        is(syncline_team_run_mpi(MPI_Comm_c2f(none), NULL, nothing, NULL),
           rank == 0 ? SYNCLINE_STATUS_OK : SYNCLINE_STATUS_BAD_COMMUNICATOR, rank == 0 ? NULL : "MPI_COMM_NULL");
        if (level < MPI_THREAD_SERIALIZED)
            is(syncline_team_run_mpi(MPI_Comm_c2f(MPI_COMM_WORLD), &two, nothing, NULL), SYNCLINE_STATUS_THREAD_LEVEL,
               "MPI provides only MPI_THREAD_");
        is(syncline_team_run_mpi(MPI_Comm_c2f(MPI_COMM_WORLD), NULL, nothing, NULL), SYNCLINE_STATUS_OK, NULL);
        if (pthread_create(&thread, NULL, elsewhere, &level) || pthread_join(thread, NULL))
            return 1;
        if (none != MPI_COMM_NULL)
            MPI_Comm_free(&none);
        /* Rank 0 on one side, the others on the other. */
        MPI_Comm_split(MPI_COMM_WORLD, rank > 0, 0, &part);
        MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, rank == 0, 7, &between);
        is(syncline_team_run_mpi(MPI_Comm_c2f(between), NULL, nothing, NULL), SYNCLINE_STATUS_BAD_COMMUNICATOR,
           "an intercommunicator");
        MPI_Comm_free(&between);
        MPI_Comm_free(&part);
    }
    MPI_Finalize();
    if (has_shim)
        is(syncline_team_run_mpi(0, NULL, nothing, NULL), SYNCLINE_STATUS_MISUSE, "finalised");
    if (rank == 0)
        puts("refused, each by its name");
    return 0;
}
