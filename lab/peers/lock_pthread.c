/* The mutex and the spin lock of POSIX threads: the first argument is `mutex` or `spin`.
 *
 * Members lock, add 1 to a plain counter, and unlock, until the time is over. The clock starts when
 * each has had one turn. The counter stands beside the lock.
 */
#include "members.h"

#define GLANCE 50 /* microseconds between two checks that all have begun */

static struct {
    union {
        pthread_mutex_t mutex;
        pthread_spinlock_t spin;
    };
    volatile uint64_t counter;
} __attribute__((aligned(LINE))) guarded;

static struct {
    uint64_t word;
} __attribute__((aligned(LINE))) ready, begun, phase;

static uint64_t *shares, before;
static int spin;
static double seconds;

enum { EARLY, OPEN, TIMED, OVER };

static inline uint64_t now_is(void)
{
    return __atomic_load_n(&phase.word, __ATOMIC_RELAXED);
}

static inline void once(void)
{
    if (spin) {
        pthread_spin_lock(&guarded.spin);
        guarded.counter = guarded.counter + 1;
        pthread_spin_unlock(&guarded.spin);
    } else {
        pthread_mutex_lock(&guarded.mutex);
        guarded.counter = guarded.counter + 1;
        pthread_mutex_unlock(&guarded.mutex);
    }
}

static void member(int me)
{
    pin(me);
    __atomic_fetch_add(&ready.word, 1, __ATOMIC_RELAXED);
    while (now_is() == EARLY)
        sched_yield();
    once();
    __atomic_fetch_add(&begun.word, 1, __ATOMIC_RELAXED);
    uint64_t warm_up = 1, share = 0;
    for (; now_is() == OPEN; warm_up++)
        once();
    for (; now_is() == TIMED; share++)
        once();
    shares[me] = share;
    __atomic_fetch_add(&before, warm_up, __ATOMIC_RELAXED);
}

static void lead(void)
{
    while (__atomic_load_n(&ready.word, __ATOMIC_RELAXED) < (uint64_t)members)
        sched_yield();
    __atomic_store_n(&phase.word, OPEN, __ATOMIC_RELAXED);
    while (__atomic_load_n(&begun.word, __ATOMIC_RELAXED) < (uint64_t)members)
        usleep(GLANCE);
    const double start = now();
    __atomic_store_n(&phase.word, TIMED, __ATOMIC_RELAXED);
    const struct timespec time = {(time_t)budget, (long)((budget - (double)(time_t)budget) * 1e9)};
    nanosleep(&time, NULL);
    __atomic_store_n(&phase.word, OVER, __ATOMIC_RELAXED);
    seconds = now() - start;
}

static void answer(void)
{
    spin = !strcmp(form, "spin");
    if (spin ? pthread_spin_init(&guarded.spin, PTHREAD_PROCESS_PRIVATE) : pthread_mutex_init(&guarded.mutex, NULL))
        fail("a lock cannot be made");
    shares = (uint64_t *)room((size_t)members, sizeof *shares);
    pthread_team(member, lead);
    uint64_t all = 0;
    for (int i = 0; i < members; i++)
        all += shares[i];
    if (all + before != guarded.counter)
        fail("two members were in the lock at once");
    printf("%.3f %d", seconds * 1e9 / (double)(all ? all : 1), !unpinned);
    for (int i = 0; i < members; i++)
        printf(" %llu", (unsigned long long)shares[i]);
    printf("\n");
}
