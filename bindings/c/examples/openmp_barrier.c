/* Syncline's barrier inside an OpenMP parallel region, beside `#pragma omp barrier`: the same work
 * with each of them, in alternating rounds, and the median time per episode of both.
 *
 *     cc -O2 -fopenmp openmp_barrier.c -lsyncline_c
 *     ./a.out [THREADS] [ROUNDS] [EPISODES OF A ROUND]
 */
#define _POSIX_C_SOURCE 200809L
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "syncline.h"

enum { OURS, OPENMP, MOST_ROUNDS = 1000 };

/* The number of arrivals of each thread, each in cache lines of its own. */
struct slot {
    _Alignas(128) long arrived;
};

static void check(syncline_status status) {
    if (status != SYNCLINE_STATUS_OK) {
        fprintf(stderr, "%s\n", syncline_last_failure()->message);
        exit(1);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *numbers, int count) {
    qsort(numbers, (size_t)count, sizeof *numbers, compare);
    return (numbers[(count - 1) / 2] + numbers[count / 2]) / 2;
}

int main(int count, char **arguments) {
    static double ns[2][MOST_ROUNDS];
    int threads = count > 1 ? atoi(arguments[1]) : omp_get_max_threads();
    int rounds = count > 2 ? atoi(arguments[2]) : 101;
    long episodes = count > 3 ? atol(arguments[3]) : 5000;
    if (threads < 1 || rounds < 1 || rounds > MOST_ROUNDS || episodes < 1) {
        fprintf(stderr, "threads, rounds (1 to %d) and episodes must be positive\n", MOST_ROUNDS);
        return 1;
    }

    syncline_barrier *barrier;
    check(syncline_barrier_new(SYNCLINE_BARRIER_KIND_AUTO, (size_t)threads, 0, &barrier));
    struct slot *slots = calloc((size_t)threads, sizeof *slots);
    long early = 0;
    if (!slots) {
        perror("calloc");
        return 1;
    }
    omp_set_dynamic(0); /* exactly as many threads as the barrier has members */

#pragma omp parallel num_threads(threads) reduction(+ : early)
    {
        size_t rank = (size_t)omp_get_thread_num();

        /* No thread leaves the barrier before all have arrived. */
        for (long n = 1; n <= 1000; n++) {
            slots[rank].arrived = n;
            check(syncline_barrier_wait(barrier, rank));
            for (int other = 0; other < threads; other++) {
                early += slots[other].arrived != n;
            }
            check(syncline_barrier_wait(barrier, rank));
        }

        for (int round = 0; round < rounds; round++) {
            for (int way = OURS; way <= OPENMP; way++) {
#pragma omp barrier
                double begin = now();
                if (way == OURS) {
                    for (long n = 0; n < episodes; n++) {
                        check(syncline_barrier_wait(barrier, rank));
                    }
                } else {
                    for (long n = 0; n < episodes; n++) {
#pragma omp barrier
                    }
                }
                if (rank == 0) {
                    ns[way][round] = (now() - begin) / (double)episodes;
                }
            }
        }
    }

    double ours = median(ns[OURS], rounds), openmp = median(ns[OPENMP], rounds);
    printf("%d threads, %d rounds of %ld episodes each: median ns per episode\n", threads, rounds, episodes);
    printf("syncline %.0f, omp barrier %.0f, ratio %.2f\n", ours, openmp, ours / openmp);
    printf("went on too early: %ld\n", early);
    free(slots);
    check(syncline_barrier_free(barrier));
    return early == 0 ? 0 : 1;
}
