/* A team within an MPI program: while rank 0 waits for the other members, in each way in which
 * members wait, the others complete messages with it by MPI. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#include "../programs/expect.h"

enum { LONG = 1 << 20, MINUTE = 60 };

static const uint64_t NANOSECONDS = UINT64_C(1000000000) * MINUTE;
static size_t rank, size;
static char *mine, *into;
static MPI_Request *open;

/* Rank 0 begins to receive from all others. */
static void begin(void)
{
    for (size_t from = 1; rank == 0 && from < size; from++)
        MPI_Irecv(into + from * LONG, LONG, MPI_CHAR, (int)from, 1, MPI_COMM_WORLD, &open[from - 1]);
}

/* The others send, and go on when rank 0 has taken part. */
static void complete(void)
{
    if (rank > 0) {
        usleep(1000); /* rank 0 is past the first looks of its wait */
        MPI_Ssend(mine, LONG, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
}

static void check(void)
{
    if (rank == 0) {
        for (size_t from = 1; from < size; from++)
            MPI_Wait(&open[from - 1], MPI_STATUS_IGNORE);
        EXPECT(into[size * LONG - 1] == 1);
        memset(into, 0, size * LONG);
    }
}

#define WAIT(call)     \
    do {               \
        begin();       \
        complete();    \
        OK(call);      \
        check();       \
    } while (0)

static int body(syncline_member *me, void *nothing)
{
    syncline_rma *rma;
    syncline_rma_memory *memory;
    syncline_rma_mutexes *mutexes;
    syncline_barrier *barrier;
    syncline_lock *lock;
    void *words;

    (void)nothing;
    rank = syncline_member_rank(me), size = syncline_member_size(me);
    WAIT(syncline_member_wait(me));
    WAIT(syncline_member_wait_for(me, NANOSECONDS));
    WAIT(syncline_member_rma(me, &rma));
    WAIT(syncline_rma_allocate(rma, 8, &memory));
    WAIT(syncline_rma_sync(rma));
    WAIT(syncline_rma_sync_for(rma, NANOSECONDS));
    WAIT(syncline_rma_sync_global(rma));
    WAIT(syncline_rma_mutexes_new(rma, 1, &mutexes));

    /* A mutex that rank 1 holds while it sends. */
    if (rank == 1)
        OK(syncline_rma_lock(rma, mutexes, 0, 0));
    OK(syncline_member_wait(me));
    begin();
    if (rank != 0)
        complete();
    if (rank == 1)
        OK(syncline_rma_unlock(rma, mutexes, 0, 0));
    if (rank == 0) {
        OK(syncline_rma_lock(rma, mutexes, 0, 0));
        OK(syncline_rma_unlock(rma, mutexes, 0, 0));
    }
    OK(syncline_member_wait(me));
    check();

    /* Objects that only members of one host may make. */
    if (syncline_member_hosts(me) == 1) {
        for (uint32_t kind = SYNCLINE_BARRIER_KIND_COUNTER; kind <= SYNCLINE_BARRIER_KIND_AUTO; kind++) {
            OK(syncline_member_barrier(me, kind, kind == SYNCLINE_BARRIER_KIND_DISSEMINATION ? 2 : 0, &barrier));
            WAIT(syncline_barrier_wait(barrier, rank));
        }
        for (uint32_t kind = SYNCLINE_LOCK_KIND_TICKET; kind <= SYNCLINE_LOCK_KIND_MCS; kind++) {
            OK(syncline_member_lock(me, kind, &lock));
            if (rank == 1)
                OK(syncline_lock_acquire(lock, rank));
            OK(syncline_member_wait(me));
            begin();
            if (rank != 0)
                complete();
            if (rank == 1)
                OK(syncline_lock_release(lock, rank));
            if (rank == 0) {
                OK(syncline_lock_acquire(lock, rank));
                OK(syncline_lock_release(lock, rank));
            }
            OK(syncline_member_wait(me));
            check();
        }
        OK(syncline_member_memory(me, sizeof(syncline_signal), &words));
        begin();
        complete();
        if (rank > 0)
            OK(syncline_signal_add(words, 1, NULL));
        else
            OK(syncline_member_await(me, words, size - 1));
        check();
    }
    OK(syncline_rma_mutexes_free(rma, mutexes));

    /* The end of the team waits for all members. */
    begin();
    complete();
    return 0;
}

int main(int argc, char **argv)
{
    int level, processes;

    alarm(120); /* a process that waits for ever ends with a signal */
    MPI_Init_thread(&argc, &argv, argc > 1 ? atoi(argv[1]) : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    mine = malloc(LONG);
    into = calloc((size_t)processes, LONG);
    open = malloc((size_t)processes * sizeof *open);
    EXPECT(mine && into && open);
    memset(mine, 1, LONG);
    OK(syncline_team_run_mpi(MPI_Comm_c2f(MPI_COMM_WORLD), NULL, body, NULL));
    check();
    if (rank == 0)
        printf("every wait has taken part\n");
    MPI_Finalize();
    return 0;
}
