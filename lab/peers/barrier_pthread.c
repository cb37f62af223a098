/* The barrier of POSIX threads. */
#include "barrier.h"

static pthread_barrier_t barrier;

static void setup(void)
{
    if (pthread_barrier_init(&barrier, NULL, (unsigned)members))
        fail("a barrier cannot be made");
}

static inline void meet(int me)
{
    (void)me;
    pthread_barrier_wait(&barrier);
}

static void team(void (*body)(int))
{
    pthread_team(body, NULL);
}
