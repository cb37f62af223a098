/* The barrier of the standard library of C++20. */
#include <barrier>

#include "barrier.h"

static std::barrier<> *barrier;

static void setup(void)
{
    barrier = new std::barrier<>(members);
}

static inline void meet(int)
{
    barrier->arrive_and_wait();
}

static void team(void (*body)(int))
{
    pthread_team(body, NULL);
}
