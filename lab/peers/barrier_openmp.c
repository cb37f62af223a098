/* OpenMP's barrier: libgomp by gcc, libomp by clang. OMP_WAIT_POLICY sets how it waits. */
#include "barrier.h"

#include <omp.h>

static void setup(void)
{
    omp_set_dynamic(0);
}

static inline void meet(int me)
{
    (void)me;
#pragma omp barrier
}

static void team(void (*body)(int))
{
#pragma omp parallel num_threads(members)
    {
        if (omp_get_num_threads() != members)
            fail("OpenMP gave another number of threads");
        body(omp_get_thread_num());
    }
}
