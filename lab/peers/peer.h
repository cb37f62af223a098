/* The common part of all compiled peers of `syncline-lab bench`: the loop that takes time, the
 * clock, the reporting of errors. */
#ifndef PEER_H
#define PEER_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Must equal the constant and the loop in lab/bench/src/kernel.rs. */
#define MULTIPLIER 0x9E3779B97F4A7C15u

static inline uint64_t kernel(uint64_t x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        x = (x ^ (x >> 29)) * MULTIPLIER;
    return x;
}

/* Makes the compiler believe that x is used. */
static inline void use(uint64_t x)
{
    __asm__ volatile("" : : "r"(x));
}

static inline void fail(const char *what)
{
    fprintf(stderr, "error: %s\n", what);
    exit(1);
}

static inline void *room(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        fail("no memory");
    return p;
}

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns whether the calling thread is restricted to one processor. */
static inline int is_pinned(void)
{
    cpu_set_t set;
    return !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) == 1;
}

#endif
