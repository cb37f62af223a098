/* The loop of a member of a barrier. The including file defines `setup`, `meet` and `team`.
 *
 * checked | chunk . chunk . chunk ...   . chunk | chunk . chunk ...  | = the clock starts  . = plan
 *
 * Member 0 reads the clock after each chunk of episodes, and plans the next one: as many episodes,
 * twice as many if this chunk took a small part of the available time, or none. A chunk ends with
 * an episode; one more episode, which is not timed, passes the plan, so that members read it before
 * it can change.
 */
#ifndef BARRIER_H
#define BARRIER_H

#include "members.h"

#define CHECKED 4      /* episodes in which each member checks that all have arrived */
#define WARM_UP 8      /* the part of the time before the clock starts */
#define CHUNKS 32      /* a chunk takes at least this part of the time */
#define CALIBRATION 16384

struct slot {
    uint64_t word;
} __attribute__((aligned(LINE)));

static struct slot plan = {1}, *arrived;
static uint64_t work; /* iterations */
static double seconds;
static uint64_t episodes;

static void setup(void);                   /* creates the barrier */
static inline void meet(int me);           /* arrives and waits */
static void team(void (*body)(int));       /* calls `body` for each member, in its own thread */

static void member(int me)
{
    pin(me);
    for (uint64_t e = 1; e <= CHECKED; e++) {
        __atomic_store_n(&arrived[me].word, e, __ATOMIC_RELAXED);
        meet(me);
        for (int i = 0; i < members; i++) {
            const uint64_t seen = __atomic_load_n(&arrived[i].word, __ATOMIC_RELAXED);
            if (seen < e || seen > e + 1)
                fail("a member left an episode in which not all had arrived");
        }
    }
    const double begin = now();
    int timed = 0;
    for (uint64_t chunk = 1; chunk;) {
        const double start = now();
        for (uint64_t e = 0; e < chunk; e++) {
            if (work)
                use(kernel((uint64_t)me, work));
            meet(me);
        }
        if (!me) {
            const double end = now();
            if (timed) {
                seconds += end - start;
                episodes += chunk;
            }
            uint64_t next = end - start < budget / CHUNKS ? 2 * chunk : chunk;
            if (timed && seconds >= budget)
                next = 0;
            timed = timed || end - begin >= budget / WARM_UP;
            __atomic_store_n(&plan.word, next, __ATOMIC_RELAXED);
        }
        meet(me);
        chunk = __atomic_load_n(&plan.word, __ATOMIC_RELAXED);
    }
}

/* Returns the nanoseconds of an iteration of the loop. */
static double calibrate(void)
{
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        const double start = now();
        use(kernel(1, CALIBRATION));
        const double each = (now() - start) * 1e9 / CALIBRATION;
        best = each < best ? each : best;
    }
    return best;
}

static void answer(void)
{
    arrived = (struct slot *)aligned_alloc(LINE, (size_t)members * sizeof *arrived);
    if (!arrived)
        fail("no memory");
    memset(arrived, 0, (size_t)members * sizeof *arrived);
    const double each = calibrate();
    work = (uint64_t)(work_ns / each + 0.5);
    setup();
    team(member);
    /* Members that share a processor work one after the other. */
    const double shared = members > cores ? (double)members / cores : 1;
    printf("%.3f %d\n", seconds * 1e9 / (double)episodes - (double)work * each * shared, !unpinned);
}

#endif
