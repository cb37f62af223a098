/* An ordinary program with barriers of pthread and nothing of Syncline. Run plainly, or with
 * LD_PRELOAD=libsyncline_preload.so, it must print the same; the time per episode is on stderr.
 *
 *     cc -O2 pthread_barrier.c -pthread && ./a.out [EPISODES]
 *     LD_PRELOAD=.../libsyncline_preload.so ./a.out [EPISODES]
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8, DESTROYED = 300 };

static void fail(int line) {
    fprintf(stderr, "line %d\n", line);
    exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : fail(__LINE__))

/* A barrier and the numbers that it orders, in memory that processes may share. */
struct team {
    pthread_barrier_t barrier;
    unsigned threads;
    long episodes;
    long serial; /* the number of times that a serial thread was chosen */
    long arrived[MOST];
};

struct member {
    struct team *team;
    unsigned rank;
};

static int arrive(struct team *team) {
    int result = pthread_barrier_wait(&team->barrier);
    EXPECT(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    return result != 0;
}

/* No thread leaves the barrier before all have arrived, and each episode has one serial thread. */
static void *member(void *argument) {
    struct member *me = argument;
    struct team *team = me->team;
    for (long n = 1; n <= team->episodes; n++) {
        team->arrived[me->rank] = n;
        int serial = arrive(team);
        for (unsigned other = 0; other < team->threads; other++) {
            EXPECT(team->arrived[other] == n);
        }
        arrive(team);
        /* One thread alone is between the two barriers, so no lock is needed. */
        if (serial) {
            team->serial++;
        }
    }
    return NULL;
}

static void run(unsigned threads, long episodes) {
    struct team team = {.threads = threads, .episodes = episodes};
    struct member members[MOST];
    pthread_t ids[MOST];
    struct timespec begin, end;
    EXPECT(pthread_barrier_init(&team.barrier, NULL, threads) == 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (unsigned rank = 0; rank < threads; rank++) {
        members[rank] = (struct member){&team, rank};
        EXPECT(pthread_create(&ids[rank], NULL, member, &members[rank]) == 0);
    }
    for (unsigned rank = 0; rank < threads; rank++) {
        pthread_join(ids[rank], NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    EXPECT(team.serial == episodes);
    EXPECT(pthread_barrier_destroy(&team.barrier) == 0);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    printf("%u threads: one serial thread in each of %ld episodes, none too early\n", threads, episodes);
    fprintf(stderr, "%u threads: %.0f ns per episode\n", threads, ns / (double)episodes / 2);
}

/* The serial thread destroys the barrier at once, while other threads may still be leaving it, and
 * reuses or frees its memory. */
struct brief {
    pthread_barrier_t *barrier;
    int reuse;
};

static void *last_one_cleans_up(void *argument) {
    struct brief *brief = argument;
    if (pthread_barrier_wait(brief->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        EXPECT(pthread_barrier_destroy(brief->barrier) == 0);
        if (brief->reuse) {
            memset(brief->barrier, 0, sizeof *brief->barrier);
        } else {
            free(brief->barrier);
        }
    }
    return NULL;
}

static void destroyed_at_once(unsigned threads) {
    static const pthread_barrier_t zero;
    for (int n = 0; n < DESTROYED; n++) {
        pthread_t ids[MOST];
        struct brief brief = {malloc(sizeof *brief.barrier), n % 2};
        EXPECT(brief.barrier && pthread_barrier_init(brief.barrier, NULL, threads) == 0);
        for (unsigned rank = 0; rank < threads; rank++) {
            EXPECT(pthread_create(&ids[rank], NULL, last_one_cleans_up, &brief) == 0);
        }
        for (unsigned rank = 0; rank < threads; rank++) {
            pthread_join(ids[rank], NULL);
        }
        if (brief.reuse) {
            /* No thread has written to the memory since. */
            EXPECT(memcmp(brief.barrier, &zero, sizeof zero) == 0);
            free(brief.barrier);
        }
    }
    printf("%u threads: %d barriers destroyed by the serial thread, their memory reused\n", threads, DESTROYED);
}

static void processes(long episodes) {
    struct team *team =
        mmap(NULL, sizeof *team, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    EXPECT(team != MAP_FAILED);
    team->threads = 2;
    team->episodes = episodes;
    EXPECT(pthread_barrierattr_init(&shared) == 0);
    EXPECT(pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0);
    EXPECT(pthread_barrier_init(&team->barrier, &shared, 2) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    member(&(struct member){team, child == 0});
    if (child == 0) {
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(team->serial == episodes);
    EXPECT(pthread_barrier_destroy(&team->barrier) == 0);
    munmap(team, sizeof *team);
    printf("2 processes: one serial thread in each of %ld episodes, none too early\n", episodes);
}

int main(int count, char **arguments) {
    long episodes = count > 1 ? atol(arguments[1]) : 100000;
    pthread_barrier_t none;
    EXPECT(pthread_barrier_init(&none, NULL, 0) == EINVAL);
    run(1, episodes);
    for (unsigned threads = 2; threads <= MOST; threads *= 2) {
        run(threads, episodes);
    }
    destroyed_at_once(2);
    destroyed_at_once(5);
    processes(episodes);
    return 0;
}
