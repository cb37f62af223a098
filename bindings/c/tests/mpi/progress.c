/* An MPI program without Syncline: what the other processes do before their barrier needs rank 0,
 * which waits in the barrier already. By MPI's rule of progress every step completes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The length of a message that MPIs send only when the receiver takes part. */
enum { LONG = 3 << 20 };

static int rank, size;
static char *mine, *into;
static MPI_Win window = MPI_WIN_NULL;

/* Rank 0 sends, and the others receive. */
static void sent_before(MPI_Request *open, int *count)
{
    if (rank > 0)
        MPI_Recv(into, LONG, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int to = 1; rank == 0 && to < size; to++)
        MPI_Isend(mine, LONG, MPI_CHAR, to, 1, MPI_COMM_WORLD, &open[(*count)++]);
}

/* Rank 0 receives a message of any length, which the others send synchronously. */
static void received_before(MPI_Request *open, int *count)
{
    for (int step = 0; step < 2; step++) {
        int length = step == 0 ? 1 : LONG;
        if (rank > 0)
            MPI_Ssend(mine, length, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
        for (int from = 1; rank == 0 && from < size; from++)
            MPI_Irecv(into + (size_t)from * LONG, length, MPI_CHAR, from, 2, MPI_COMM_WORLD, &open[(*count)++]);
    }
}

static void buffered_before(MPI_Request *open, int *count)
{
    static char *buffer;
    static int room;
    (void)open, (void)count;
    if (rank > 0)
        MPI_Recv(into, LONG, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0 && !buffer) {
        room = size * (LONG + MPI_BSEND_OVERHEAD);
        buffer = malloc((size_t)room);
        MPI_Buffer_attach(buffer, room);
    }
    for (int to = 1; rank == 0 && to < size; to++)
        MPI_Bsend(mine, LONG, MPI_CHAR, to, 3, MPI_COMM_WORLD);
}

/* A collective call that rank 0 has begun, and that the others end. */
static void reduced_before(MPI_Request *open, int *count)
{
    MPI_Iallreduce(mine, into, LONG, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD, &open[*count]);
    if (rank == 0)
        ++*count;
    else
        MPI_Wait(open, MPI_STATUS_IGNORE);
}

/* The others work on the memory of rank 0 without its calls. */
static void put_before(MPI_Request *open, int *count)
{
    static char *memory;
    long one = 1, before;
    (void)open, (void)count;
    if (window == MPI_WIN_NULL) {
        MPI_Win_allocate(LONG + 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        memset(memory, 0, LONG + 8);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank > 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Put(mine, LONG, MPI_CHAR, 0, 0, LONG, MPI_CHAR, window);
        MPI_Win_unlock(0, window);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, LONG, MPI_SUM, window);
        MPI_Get(into, LONG, MPI_CHAR, 0, 0, LONG, MPI_CHAR, window);
        MPI_Win_unlock(0, window);
    }
}

int main(int argc, char **argv)
{
    static void (*const steps[])(MPI_Request *, int *) = {sent_before, received_before, buffered_before,
                                                          reduced_before, put_before};
    int level;

    alarm(120); /* a process that waits for ever ends with a signal */
    MPI_Init_thread(&argc, &argv, argc > 1 ? atoi(argv[1]) : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mine = malloc(LONG);
    into = malloc((size_t)size * LONG);
    MPI_Request *open = malloc(2 * (size_t)size * sizeof *open);
    if (!mine || !into || !open)
        return 1;
    memset(mine, 1, LONG);
    for (size_t step = 0; step < 2 * sizeof steps / sizeof *steps; step++) {
        int count = 0;
        memset(into, 0, (size_t)size * LONG);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank > 0)
            usleep(2000); /* rank 0 is past the first looks of its wait */
        steps[step % (sizeof steps / sizeof *steps)](open, &count);
        MPI_Barrier(MPI_COMM_WORLD);
        while (count > 0)
            MPI_Wait(&open[--count], MPI_STATUS_IGNORE);
        if (rank > 0 && step % 5 != 1 && into[LONG - 1] != 1) {
            fprintf(stderr, "rank %d: step %zu has moved nothing\n", rank, step);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (rank == 0 && step % 5 == 1 && into[size * (size_t)LONG - 1] != 1) {
            fprintf(stderr, "step %zu: the last message has not come\n", step);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    if (rank == 0)
        printf("every step is complete\n");
    MPI_Win_free(&window);
    /* The end of rank 0 takes part as well. */
    if (rank <= 1) {
        int none = 0;
        MPI_Request *nothing = NULL;
        usleep(rank == 1 ? 2000 : 0);
        size = 2;
        buffered_before(nothing, &none);
    }
    MPI_Finalize();
    return 0;
}
