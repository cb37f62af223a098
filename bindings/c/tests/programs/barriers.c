/* Barriers of all kinds, and a signal in memory that two processes share. Run by
 * tests/c/programs.rs. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { MOST = 8 };
#ifndef EPISODES
#define EPISODES 300
#endif

static syncline_barrier *barrier;
static size_t members;
/* The number of arrivals of each member, in plain variables that the barrier orders. */
static long arrived[MOST];

/* Passes the barrier in different ways by turns: wait, arrive and wait, arrive and poll, wait with
 * time limits that are too short. */
static void pass(size_t rank, int episode) {
    syncline_status status;
    bool done = false;
    switch ((episode + rank) % 4) {
    case 0:
        OK(syncline_barrier_wait(barrier, rank));
        break;
    case 1:
        OK(syncline_barrier_arrive(barrier, rank));
        OK(syncline_barrier_wait(barrier, rank));
        break;
    case 2:
        OK(syncline_barrier_arrive(barrier, rank));
        while (OK(syncline_barrier_done(barrier, rank, &done)), !done) {
            usleep(0);
        }
        break;
    default:
        while ((status = syncline_barrier_wait_for(barrier, rank, 20000)) == SYNCLINE_STATUS_TIMED_OUT) {
        }
        OK(status);
    }
}

static void *member(void *argument) {
    size_t rank = (size_t)argument;
    for (int episode = 1; episode <= EPISODES; episode++) {
        arrived[rank] = episode;
        pass(rank, episode);
        for (size_t other = 0; other < members; other++) {
            EXPECT(arrived[other] == episode);
        }
        OK(syncline_barrier_wait(barrier, rank)); /* until all have looked */
    }
    return NULL;
}

static void run(uint32_t kind, size_t of, size_t radix) {
    pthread_t threads[MOST];
    members = of;
    OK(syncline_barrier_new(kind, members, radix, &barrier));
    for (size_t rank = 0; rank < members; rank++) {
        EXPECT(!pthread_create(&threads[rank], NULL, member, (void *)rank));
    }
    for (size_t rank = 0; rank < members; rank++) {
        pthread_join(threads[rank], NULL);
    }
    OK(syncline_barrier_free(barrier));
}

static void *wait_for_the_end(void *signal) {
    OK(syncline_signal_wait_for(signal, SYNCLINE_SIGNAL_MAX, 300000000000));
    return NULL;
}

/* A signal at its largest number fails with a status and does not wrap; every wait for a number
 * ends. */
static void signals_end(void) {
    const char *words = "the signal is closed: it is at the largest number, 4611686018427387903";
    syncline_signal signal = {0}, other = {0};
    pthread_t waiter;
    uint64_t now = 77;
    FAILS(syncline_signal_raise_to(&signal, INT64_MAX), INVALID_ARGUMENT,
          "9223372036854775807 is more than a signal can hold, 4611686018427387903");
    FAILS(syncline_signal_add(&signal, SYNCLINE_SIGNAL_MAX_ADD + 1, &now), INVALID_ARGUMENT,
          "4294967297 is more than can be added to a signal at once, 4294967296");
    EXPECT(now == 0);
    OK(syncline_signal_get(&signal, &now));
    EXPECT(now == 0); /* the signal is unchanged */
    OK(syncline_signal_raise_to(&signal, SYNCLINE_SIGNAL_MAX - 1));
    EXPECT(pthread_create(&waiter, NULL, wait_for_the_end, &signal) == 0);
    for (int n = 0; n < 3; n++) {
        FAILS(syncline_signal_add(&signal, SYNCLINE_SIGNAL_MAX_ADD, &now), CLOSED, words);
        EXPECT(now == 0);
        OK(syncline_signal_get(&signal, &now));
        EXPECT(now == SYNCLINE_SIGNAL_MAX);
    }
    EXPECT(pthread_join(waiter, NULL) == 0);
    OK(syncline_signal_wait(&signal, 5));
    OK(syncline_signal_raise_to(&signal, 3));
    FAILS(syncline_signal_wait_for(&signal, SYNCLINE_SIGNAL_MAX + 1, 0), INVALID_ARGUMENT,
          "4611686018427387904 is more than a signal can hold, 4611686018427387903");
    OK(syncline_signal_raise_to(&other, SYNCLINE_SIGNAL_MAX));
    OK(syncline_signal_add(&other, 0, &now));
    EXPECT(now == SYNCLINE_SIGNAL_MAX); /* at its largest number, and not past it */
    EXPECT(strcmp(syncline_status_text(SYNCLINE_STATUS_CLOSED), "the signal is at its largest number") == 0);
    EXPECT(strcmp(syncline_status_text(-7), "unknown status") == 0);
}

/* Two processes alternate by two signals in shared memory. */
static void processes(void) {
    syncline_signal *there =
        mmap(NULL, 2 * sizeof *there, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    syncline_signal *back = there + 1;
    uint64_t now;
    EXPECT(there != MAP_FAILED);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        for (uint64_t n = 1; n <= EPISODES; n++) {
            OK(syncline_signal_wait(there, n));
            OK(syncline_signal_raise_to(back, n));
        }
        _exit(0);
    }
    for (uint64_t n = 1; n <= EPISODES; n++) {
        OK(syncline_signal_add(there, 1, &now));
        EXPECT(now == n);
        OK(syncline_signal_wait_for(back, n, 300000000000));
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    OK(syncline_signal_get(back, &now));
    EXPECT(now == EPISODES);
    munmap(there, 2 * sizeof *there);
}

int main(void) {
    processes();
    signals_end();
    for (size_t of = 1; of <= 5; of += 2) {
        run(SYNCLINE_BARRIER_KIND_COUNTER, of, 0);
        run(SYNCLINE_BARRIER_KIND_TOURNAMENT, of, 0);
        run(SYNCLINE_BARRIER_KIND_DISSEMINATION, of, 0);
        run(SYNCLINE_BARRIER_KIND_DISSEMINATION, of, 3);
        run(SYNCLINE_BARRIER_KIND_AUTO, of, 0);
    }
    run(SYNCLINE_BARRIER_KIND_AUTO, 2, 0);
    puts("no member went on too early");
    return 0;
}
