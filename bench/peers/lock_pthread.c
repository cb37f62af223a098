/* The mutex and the spin lock of POSIX threads: the first argument is `mutex` or `spin`.
 *
 * Members lock, add 1 to a plain counter, and unlock, until the time is over. The counter stands beside the lock.
 */
#include "members.h"

static struct {
    union {
        pthread_mutex_t mutex;
        pthread_spinlock_t spin;
    };
    volatile uint64_t counter;
} __attribute__((aligned(LINE))) guarded;

static struct {
    uint64_t word;
} __attribute__((aligned(LINE))) ready, phase;

static uint64_t *shares;
static int spin;
static double seconds;

enum { EARLY, OPEN, OVER };

static inline uint64_t now_is(void)
{
    return __atomic_load_n(&phase.word, __ATOMIC_RELAXED);
}

static void member(int me)
{
    pin(me);
    __atomic_fetch_add(&ready.word, 1, __ATOMIC_RELAXED);
    while (now_is() == EARLY)
        sched_yield();
    uint64_t share = 0;
    if (spin)
        while (now_is() == OPEN) {
            pthread_spin_lock(&guarded.spin);
            guarded.counter = guarded.counter + 1;
            pthread_spin_unlock(&guarded.spin);
            share++;
        }
    else
        while (now_is() == OPEN) {
            pthread_mutex_lock(&guarded.mutex);
            guarded.counter = guarded.counter + 1;
            pthread_mutex_unlock(&guarded.mutex);
            share++;
        }
    shares[me] = share;
}

static void lead(void)
{
    while (__atomic_load_n(&ready.word, __ATOMIC_RELAXED) < (uint64_t)members)
        sched_yield();
    const double start = now();
    __atomic_store_n(&phase.word, OPEN, __ATOMIC_RELAXED);
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
    if (all != guarded.counter)
        fail("two members were in the lock at once");
    printf("%.3f %d", seconds * 1e9 / (double)(all ? all : 1), !unpinned);
    for (int i = 0; i < members; i++)
        printf(" %llu", (unsigned long long)shares[i]);
    printf("\n");
}
