/* An MPI program without Syncline. No process leaves a barrier before all have entered it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    int rank, size, early = 0, level;
    MPI_Comm odd, all;

    MPI_Init_thread(&argc, &argv, argc > 1 ? atoi(argv[1]) : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &odd);
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    for (int round = 0; round < 200; round++) {
        double come, last, gone, first;
        for (volatile int work = 0; work < (rank * 7919 + round * 104729) % 20000; work++) {
        }
        come = now();
        MPI_Barrier(MPI_COMM_WORLD);
        gone = now();
        MPI_Allreduce(&come, &last, 1, MPI_DOUBLE, MPI_MAX, all);
        MPI_Allreduce(&gone, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        early += first < last;
        if (round % 10 == 0) {
            MPI_Barrier(odd);
            MPI_Barrier(all);
        }
    }
    if (rank == 0)
        printf("%d of 200 barriers were left too early\n", early);
    MPI_Comm_free(&odd);
    MPI_Comm_free(&all);
    MPI_Finalize();
    return early != 0;
}
