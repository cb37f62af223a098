/* Barriers that the C library has initialised, beside barriers of the preloaded library. Run by
 * preload.rs, with the library preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(int line) {
    fprintf(stderr, "line %d\n", line);
    exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : fail(__LINE__))

typedef int initialiser(pthread_barrier_t *, const pthread_barrierattr_t *, unsigned);

static int counts[2];

static void *wait_often(void *barrier) {
    for (int n = 0; n < 1000; n++) {
        int result = pthread_barrier_wait(barrier);
        EXPECT(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        if (result) {
            counts[n % 2]++;
        }
        pthread_barrier_wait(barrier);
    }
    return NULL;
}

static void in_two_threads(pthread_barrier_t *barrier) {
    pthread_t other;
    counts[0] = counts[1] = 0;
    EXPECT(pthread_create(&other, NULL, wait_often, barrier) == 0);
    wait_often(barrier);
    pthread_join(other, NULL);
    EXPECT(counts[0] == 500 && counts[1] == 500);
}

static void *wait_once(void *barrier) {
    pthread_barrier_wait(barrier);
    return NULL;
}

int main(void) {
    pthread_barrier_t barrier, fresh;
    pthread_t other;
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    EXPECT(libc);
    initialiser *init;
    *(void **)&init = dlsym(libc, "pthread_barrier_init");
    EXPECT(init && init != pthread_barrier_init);

    /* A barrier of the C library, in fresh bytes and in the bytes of a barrier of the preloaded
     * library; in between, a barrier of the preloaded library in the same bytes. */
    memset(&barrier, 0, sizeof barrier);
    EXPECT(init(&barrier, NULL, 2) == 0);
    in_two_threads(&barrier);
    EXPECT(pthread_barrier_destroy(&barrier) == 0);
    EXPECT(pthread_barrier_init(&barrier, NULL, 2) == 0);
    in_two_threads(&barrier);
    EXPECT(pthread_barrier_destroy(&barrier) == 0);
    EXPECT(init(&barrier, NULL, 2) == 0);
    in_two_threads(&barrier);
    EXPECT(pthread_barrier_destroy(&barrier) == 0);

    /* Mistakes are errors. */
    EXPECT(pthread_barrier_init(&barrier, NULL, 0) == EINVAL);
    EXPECT(pthread_barrier_init(&barrier, NULL, -1U) == EINVAL);
    EXPECT(pthread_barrier_init(&barrier, NULL, 2) == 0);
    memcpy(&fresh, &barrier, sizeof barrier);
    EXPECT(pthread_create(&other, NULL, wait_once, &barrier) == 0);
    while (memcmp(&barrier, &fresh, sizeof barrier) == 0) { /* it has not arrived yet */
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    EXPECT(pthread_barrier_destroy(&barrier) == EBUSY);
    wait_once(&barrier);
    pthread_join(other, NULL);
    EXPECT(pthread_barrier_destroy(&barrier) == 0);
    EXPECT(pthread_barrier_destroy(&barrier) == EINVAL);
    EXPECT(pthread_barrier_wait(&barrier) == EINVAL);
    puts("each has its own");
    return 0;
}
