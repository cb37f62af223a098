/* The OpenMP peer of overlays, in two forms:
 *
 *   tasks   one thread creates all tasks of all rounds, `depend` orders them
 *   for     a worksharing loop per level, whose end is a barrier
 *
 * OMP_PROC_BIND and OMP_PLACES pin the threads, which persist from one parallel region to the next.
 *
 *   gcc -O3 -fopenmp -o overlay_openmp overlay_openmp.c       (or clang)
 */
#define _GNU_SOURCE
#include "overlay.h"

#include <omp.h>

#define PRAGMA(x) _Pragma(#x)
#define TASK(inputs) \
    PRAGMA(omp task firstprivate(t, round) depend(out : v[t->number]) inputs) \
    body(t, round); \
    break
#define IN(i) depend(in : v[r[i]])

static void make(const struct task *t, uint64_t round)
{
    uint64_t *v = value;
    const uint32_t *r = t->read;
    (void)v, (void)r;
    switch (t->reads) {
    case 0:
        TASK();
    case 1:
        TASK(IN(0));
    case 2:
        TASK(IN(0) IN(1));
    case 3:
        TASK(IN(0) IN(1) IN(2));
    case 4:
        TASK(IN(0) IN(1) IN(2) IN(3));
    case 5:
        TASK(IN(0) IN(1) IN(2) IN(3) IN(4));
    default:
        fail("a task reads more than five values");
    }
}

static void run_tasks(uint64_t rounds)
{
#pragma omp parallel
#pragma omp single
    for (uint64_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < count; i++)
            make(&tasks[i], round);
}

static void run_for(uint64_t rounds)
{
#pragma omp parallel
    for (uint64_t round = 0; round < rounds; round++)
        for (uint32_t l = 0; l < levels; l++) {
#pragma omp for schedule(static)
            for (uint32_t i = level_start[l]; i < level_start[l + 1]; i++)
                body(&tasks[i], round);
        }
}

static runner *prepare(const char *form, int workers)
{
    omp_set_dynamic(0);
    omp_set_num_threads(workers);
    return !strcmp(form, "tasks") ? run_tasks : !strcmp(form, "for") ? run_for : NULL;
}

static int pinned(void)
{
    int all = 1;
#pragma omp parallel reduction(&& : all)
    all = all && is_pinned();
    return all;
}
