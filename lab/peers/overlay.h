/* The common part of all compiled peers of `syncline-lab bench overlay`: the program, the bodies,
 * the clock.
 *
 *   PEER FILE FORM WORKERS WARMUP ROUNDS WORK ITERATIONS      prints: SECONDS CHECKSUM PINNED
 *   PEER FILE kernel 1 0 ITERATIONS empty 0                   the same for the loop of the bodies
 *
 * PINNED is 1 if each thread has one processor. The same threads run the WARMUP rounds, which are
 * not timed.
 *
 * FILE is the program as text: the number of tasks and of levels, and for each task, level by
 * level, its number, its level, the number of values it reads and their numbers, the number of
 * tasks it conflicts with and their numbers. Task t writes value t. Of two tasks that conflict, the
 * one that comes first in the file goes first in every round.
 */
#ifndef OVERLAY_H
#define OVERLAY_H

#include "peer.h"

struct task {
    uint32_t number, level, reads, conflicts;
    uint32_t *read;     /* values */
    uint32_t *conflict; /* tasks, by number */
};

enum work { EMPTY, SPIN, IRREGULAR, VERIFY };

static struct task *tasks; /* in the order of a round */
static uint32_t count, levels;
static uint32_t *level_start; /* tasks of level l: level_start[l] .. level_start[l + 1] */
static uint64_t *value;
static enum work work;
static uint64_t iterations;

/* Must equal the constants and functions in lab/bench/src/overlay/work.rs. */
#define SECOND_MULTIPLIER 0xBF58476D1CE4E5B9u
#define SHAKE 64

static inline uint64_t hash(uint32_t task, uint64_t round)
{
    const uint64_t h = (((uint64_t)task << 32) ^ round) * MULTIPLIER;
    return (h ^ (h >> 29)) * SECOND_MULTIPLIER;
}

/* Returns from 0 to 2 * mean iterations. */
static inline uint64_t irregular(uint64_t mean, uint32_t task, uint64_t round)
{
    return (2 * mean * (hash(task, round) >> 40)) >> 24;
}

static inline void body(const struct task *t, uint64_t round)
{
    switch (work) {
    case EMPTY:
        return;
    case SPIN:
        use(kernel(t->number, iterations));
        return;
    case IRREGULAR:
        use(kernel(t->number, irregular(iterations, t->number, round)));
        return;
    case VERIFY: {
        use(kernel(t->number, irregular(SHAKE, t->number, round)));
        uint64_t h = hash(t->number, round);
        for (uint32_t i = 0; i < t->reads; i++) {
            h = (((h << 7) | (h >> 57)) ^ value[t->read[i]]) * MULTIPLIER;
            h ^= h >> 31;
        }
        value[t->number] = h;
    }
    }
}

static inline uint64_t checksum(void)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < count; t++)
        sum = (((sum << 5) | (sum >> 59)) ^ value[t]) * MULTIPLIER;
    return sum;
}

static inline uint32_t number(FILE *f)
{
    unsigned n;
    if (fscanf(f, "%u", &n) != 1)
        fail("the program is cut short");
    return n;
}

static inline uint32_t *list(FILE *f, uint32_t *n)
{
    *n = number(f);
    uint32_t *l = (uint32_t *)room(*n, sizeof *l);
    for (uint32_t i = 0; i < *n; i++)
        l[i] = number(f);
    return l;
}

static inline void load(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        fail("the program cannot be read");
    count = number(f);
    levels = number(f);
    tasks = (struct task *)room(count, sizeof *tasks);
    value = (uint64_t *)room(count, sizeof *value);
    level_start = (uint32_t *)room(levels + 1, sizeof *level_start);
    for (uint32_t i = 0; i < count; i++) {
        tasks[i].number = number(f);
        tasks[i].level = number(f);
        tasks[i].read = list(f, &tasks[i].reads);
        tasks[i].conflict = list(f, &tasks[i].conflicts);
        level_start[tasks[i].level + 1] = i + 1;
    }
    fclose(f);
}

/* Runs all tasks for a number of rounds; called twice, because threads are not pinned at once. */
typedef void runner(uint64_t rounds);

/* Returns the runner of a form, prepared for that number of workers; NULL if no form has that
 * name. */
static runner *prepare(const char *form, int workers);

/* Returns whether all threads were pinned. */
static int pinned(void);

int main(int argc, char **argv)
{
    if (argc != 8)
        fail("usage: FILE FORM WORKERS WARMUP ROUNDS WORK ITERATIONS");
    alarm(300); /* Ends a run that hangs. */
    const uint64_t warmup = strtoull(argv[4], NULL, 10), rounds = strtoull(argv[5], NULL, 10);
    if (!strcmp(argv[2], "kernel")) {
        const double start = now();
        const uint64_t x = kernel(1, rounds);
        printf("%.9f %016llx 0\n", now() - start, (unsigned long long)x);
        return 0;
    }
    load(argv[1]);
    const char *names[] = {"empty", "spin", "irregular", "verify"};
    int w = 0;
    while (w < 4 && strcmp(argv[6], names[w]))
        w++;
    runner *run = prepare(argv[2], atoi(argv[3]));
    if (!run || w == 4)
        fail("no such form or work");
    iterations = strtoull(argv[7], NULL, 10);
    work = (enum work)w;
    if (warmup)
        run(warmup);
    const double start = now();
    run(rounds);
    const double seconds = now() - start;
    printf("%.9f %016llx %d\n", seconds, (unsigned long long)checksum(), pinned());
    return 0;
}

#endif
