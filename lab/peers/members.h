/* The common part of the peers of `syncline-lab bench barrier` and `syncline-lab bench lock`: the
 * protocol, and pinned threads.
 *
 * A peer reads lines from standard input, and answers each with a line on standard output:
 *
 *   RUN MEMBERS MILLISECONDS WORK_NS        NS AS_WANTED [SHARE...]
 *
 * NS is the wall time per episode, without the work, or per lock and unlock; AS_WANTED is 1 if each
 * member has its own processor, or if there are fewer processors than members; a SHARE is the
 * number of times that a member had the lock.
 *
 * Each run is a process of its own, so that no threads of one peer spin beside another's, whatever
 * its library does with idle threads. `lab/bench/src/contest` has the same for threads of the
 * command: change both.
 */
#ifndef MEMBERS_H
#define MEMBERS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "peer.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define LINE 128 /* bytes: two cache lines, as these are often fetched in pairs */
#define LONGEST 60 /* seconds of a run */

static int members;
static double budget;  /* seconds of a run */
static double work_ns; /* of a member between two episodes */
static int cores;
static int unpinned;
static cpu_set_t allowed;

/* Answers a run. */
static void answer(void);

/* Pins the calling thread to processor `me` of those that the process may run on, if there is one
 * for each member. */
static inline void pin(int me)
{
    if (members > cores)
        return;
    int cpu = -1;
    do
        cpu++;
    while (!CPU_ISSET(cpu, &allowed) || me-- > 0);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        __atomic_store_n(&unpinned, 1, __ATOMIC_RELAXED);
}

static void (*member_body)(int);

static inline void *member_start(void *me)
{
    member_body((int)(intptr_t)me);
    return NULL;
}

/* Calls `body` in a thread for each member, and `lead` in this one. */
static inline void pthread_team(void (*body)(int), void (*lead)(void))
{
    pthread_t *threads = (pthread_t *)room((size_t)members, sizeof *threads);
    member_body = body;
    for (int i = 0; i < members; i++)
        if (pthread_create(&threads[i], NULL, member_start, (void *)(intptr_t)i))
            fail("a thread cannot be started");
    if (lead)
        lead();
    for (int i = 0; i < members; i++)
        pthread_join(threads[i], NULL);
}

static const char *form;

int main(int argc, char **argv)
{
    form = argc > 1 ? argv[1] : "";
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        fail("the processors cannot be read");
    cores = CPU_COUNT(&allowed);
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        double milliseconds;
        if (sscanf(line, "RUN %d %lf %lf", &members, &milliseconds, &work_ns) != 3 || members < 1)
            fail("usage: RUN MEMBERS MILLISECONDS WORK_NS");
        budget = milliseconds * 1e-3;
        const pid_t parent = getpid(), child = fork();
        if (child < 0)
            fail("a run cannot be started");
        if (!child) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                return 1;
            alarm(LONGEST);
            answer();
            fflush(stdout);
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child)
            fail("a run cannot be waited for");
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE)
            return 0; /* The reader is gone. */
        if (status)
            fail("a run failed");
    }
    return 0;
}

#endif
