/* Interprets a text of steps, one per line: the member that takes the step (a rank, or `after` for
 * steps after the team), a word, and numbers. A call whose status is not OK is reported, and the
 * next step follows, so a text may misuse the interface in any way.
 *
 *     ./misuse TEXT [--hosts N]
 *
 * Notes go to TEXT.notes.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "syncline.h"

enum { STEPS = 1000, SLOTS = 4, SETS = 2, AFTER = -1 };

typedef struct {
    long rank;
    char word[24];
    unsigned long long at[4];
} step;

static step steps[STEPS];
static size_t count;
static char notes[4096];

/* The objects of a member. Those of the first member of a process are kept for the steps after the
 * team. */
typedef struct {
    syncline_member *me;
    size_t rank;
    syncline_rma *rma;
    syncline_rma_memory *memory[SLOTS];
    syncline_rma_mutexes *mutexes[SETS];
    syncline_barrier *barrier;
    syncline_lock *lock;
    syncline_rma_handle handle;
    void *local;
    uint64_t buffer[64];
    int failures;
} stage;

static stage kept;
static volatile sig_atomic_t on_purpose;

/* Writes a line to standard error in one piece. */
static void tell(size_t rank, const char *word, const char *what) {
    char line[1200];
    int length = snprintf(line, sizeof line, "[%zu] %s: %s\n", rank, word, what);
    if (length > 0 && write(2, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1) < 0) {
        _exit(98);
    }
}

/* Reports a crash that no step requested. */
static void crashed(int signal) {
    static const char line[] = "CRASH: by a signal that no step has raised\n";
    if (!on_purpose && write(2, line, sizeof line - 1) < 0) {
        _exit(98);
    }
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(signal, &usual, NULL);
    raise(signal);
}

/* Appends a line to the file of notes beside the text, which records the order of events of several
 * processes. */
static void note(size_t rank, unsigned long long what) {
    FILE *file = fopen(notes, "a");
    if (!file || fprintf(file, "%zu %llu\n", rank, what) < 0 || fclose(file) != 0) {
        tell(rank, "note", "CRASH: a note was not written");
    }
}

static void sleep_for(unsigned long long milliseconds) {
    struct timespec time = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000};
    nanosleep(&time, NULL);
}

/* Reports the status of a call. */
static void heard(stage *s, const char *word, syncline_status status) {
    if (status != SYNCLINE_STATUS_OK) {
        const syncline_failure *last = syncline_last_failure();
        s->failures++;
        tell(s->rank, word, last && last->message && *last->message ? last->message : "CRASH: a failure without a message");
    }
}

static int inner(syncline_member *me, void *argument) {
    (void)argument;
    return syncline_member_wait(me) != SYNCLINE_STATUS_OK;
}

/* A second thread of a member, which uses the member's objects concurrently. */
static void *beside(void *argument) {
    stage *s = argument;
    uint64_t number = 1;
    for (int time = 0; time < 2000; time++) {
        syncline_rma_put(s->rma, s->memory[0], 0, 0, &number, sizeof number);
    }
    syncline_rma_fence_all(s->rma);
    return NULL;
}

static void threads(stage *s, unsigned long long more) {
    pthread_t all[4];
    size_t made = 0;
    for (; made < more && made < 4 && pthread_create(&all[made], NULL, beside, s) == 0; made++) {
    }
    beside(s);
    while (made > 0) {
        pthread_join(all[--made], NULL);
    }
}

/* Forks a child that ends at once (0), makes calls (1), makes calls and exits normally (2), or
 * lives on for a while (3). */
static void forks(stage *s, unsigned long long how) {
    pid_t child = fork();
    if (child == 0) {
        if (how == 1 || how == 2) {
            stage mine = *s;
            heard(&mine, "child put", syncline_rma_put(s->rma, s->memory[0], 0, 0, s->buffer, 8));
            heard(&mine, "child wait", syncline_member_wait(s->me));
            heard(&mine, "child sync", syncline_rma_sync(s->rma));
        }
        if (how == 2) {
            exit(0);
        }
        if (how == 3) {
            sleep_for(500);
        }
        _exit(0);
    }
    if (child > 0 && how != 3) {
        waitpid(child, NULL, 0);
    }
}

#define IS(name) (strcmp(at->word, name) == 0)
#define CALL(call) heard(s, at->word, call)

/* Calls that wait for no member, or for the holder of a lock or a mutex. */
static bool one_sided(stage *s, const step *at) {
    unsigned long long a = at->at[0], b = at->at[1], c = at->at[2], d = at->at[3];
    syncline_rma_memory *memory = s->memory[a % SLOTS];
    syncline_rma_mutexes *mutexes = s->mutexes[a % SETS];
    int64_t before;
    bool said;
    double one = 1;
    if (IS("put")) CALL(syncline_rma_put(s->rma, memory, b, c, s->buffer, d));
    else if (IS("put_null")) CALL(syncline_rma_put(s->rma, memory, b, c, NULL, d));
    else if (IS("get")) CALL(syncline_rma_get(s->rma, memory, b, c, s->buffer, d));
    else if (IS("get_no_rma")) CALL(syncline_rma_get(NULL, memory, b, c, s->buffer, d));
    else if (IS("accumulate")) CALL(syncline_rma_accumulate(s->rma, memory, b, c, SYNCLINE_RMA_NUMBER_F64, &one, s->buffer, d));
    else if (IS("accumulate_kind")) CALL(syncline_rma_accumulate(s->rma, memory, b, c, 77, &one, s->buffer, d));
    else if (IS("add")) CALL(syncline_rma_fetch_add_i64(s->rma, memory, b, c, 1, &before));
    else if (IS("fence")) CALL(syncline_rma_fence(s->rma, a));
    else if (IS("fence_all")) CALL(syncline_rma_fence_all(s->rma));
    else if (IS("start_put")) CALL(syncline_rma_start_put(s->rma, memory, b, c, s->buffer, d, &s->handle));
    else if (IS("handle_wait")) CALL(syncline_rma_wait(s->rma, &s->handle));
    else if (IS("handle_garbage")) memset(&s->handle, 0x5a, sizeof s->handle);
    else if (IS("lock")) CALL(syncline_rma_lock(s->rma, mutexes, b, c));
    else if (IS("lock_for")) CALL(syncline_rma_lock_for(s->rma, mutexes, b, c, d * 1000000));
    else if (IS("unlock")) CALL(syncline_rma_unlock(s->rma, mutexes, b, c));
    else if (IS("allocate_local")) CALL(syncline_rma_allocate_local(s->rma, a, &s->local));
    else if (IS("free_local")) CALL(syncline_rma_deallocate_local(s->rma, s->local));
    else if (IS("sync_done")) CALL(syncline_rma_sync_done(s->rma, &said));
    else if (IS("lock_acquire")) CALL(syncline_lock_acquire(s->lock, s->rank));
    else if (IS("lock_acquire_for")) CALL(syncline_lock_acquire_for(s->lock, s->rank, a * 1000000));
    else if (IS("lock_as")) CALL(syncline_lock_acquire(s->lock, a));
    else if (IS("lock_release")) CALL(syncline_lock_release(s->lock, s->rank));
    else if (IS("lock_recover")) CALL(syncline_lock_recover(s->lock, s->rank, &said));
    else if (IS("barrier_as")) CALL(syncline_barrier_wait_for(s->barrier, a, 1000000));
    else if (IS("member_null")) CALL(syncline_member_wait(NULL));
    else return false;
    return true;
}

/* Collective calls. */
static bool together(stage *s, const step *at) {
    unsigned long long a = at->at[0], b = at->at[1];
    void *shared;
    if (IS("sync")) CALL(syncline_rma_sync(s->rma));
    else if (IS("sync_for")) CALL(syncline_rma_sync_for(s->rma, a * 1000000));
    else if (IS("wait_for")) CALL(syncline_member_wait_for(s->me, a * 1000000));
    else if (IS("allocate_for")) CALL(syncline_rma_allocate_for(s->rma, b, at->at[2] * 1000000, &s->memory[a % SLOTS]));
    else if (IS("sync_start")) CALL(syncline_rma_sync_start(s->rma));
    else if (IS("sync_wait")) CALL(syncline_rma_sync_wait_for(s->rma, a == 0 ? UINT64_MAX : a * 1000000));
    else if (IS("wait")) CALL(syncline_member_wait(s->me));
    else if (IS("allocate")) CALL(syncline_rma_allocate(s->rma, b, &s->memory[a % SLOTS]));
    else if (IS("deallocate")) CALL(syncline_rma_deallocate(s->rma, s->memory[a % SLOTS]));
    else if (IS("mutexes_new")) CALL(syncline_rma_mutexes_new(s->rma, b, &s->mutexes[a % SETS]));
    else if (IS("mutexes_free")) CALL(syncline_rma_mutexes_free(s->rma, s->mutexes[a % SETS]));
    else if (IS("rma")) CALL(syncline_member_rma(s->me, &s->rma));
    else if (IS("barrier")) CALL(syncline_member_barrier(s->me, SYNCLINE_BARRIER_KIND_AUTO, 0, &s->barrier));
    else if (IS("barrier_wait")) CALL(syncline_barrier_wait(s->barrier, s->rank));
    else if (IS("barrier_wait_for")) CALL(syncline_barrier_wait_for(s->barrier, s->rank, a * 1000000));
    else if (IS("lock_new")) CALL(syncline_member_lock(s->me, SYNCLINE_LOCK_KIND_MCS, &s->lock));
    else if (IS("memory")) CALL(syncline_member_memory(s->me, a, &shared));
    else return false;
    return true;
}

/* Steps that are not calls of the library. Unless the function returns, the step has ended the
 * process. */
static bool otherwise(stage *s, const step *at) {
    unsigned long long a = at->at[0];
    if (IS("sleep")) {
        sleep_for(a);
    } else if (IS("note")) {
        note(s->rank, a);
    } else if (IS("threads")) {
        threads(s, a);
    } else if (IS("fork")) {
        forks(s, a);
    } else if (IS("nested")) {
        syncline_shape shape = {.threads = 2};
        CALL(syncline_team_run(a ? &shape : NULL, inner, NULL));
    } else {
        tell(s->rank, at->word, "as the text says");
        on_purpose = 1;
        if (IS("exit")) {
            exit((int)a);
        } else if (IS("_exit")) {
            _exit((int)a);
        } else if (IS("kill")) {
            raise((int)a);
        } else if (IS("abort")) {
            abort();
        } else if (IS("exec")) {
            execlp("true", "true", (char *)NULL);
        }
        return false;
    }
    return true;
}

static int play(stage *s, long rank) {
    for (size_t n = 0; n < count; n++) {
        const step *at = &steps[n];
        if (at->rank != rank) {
            continue;
        }
        if (IS("return")) {
            return (int)at->at[0];
        }
        if (!one_sided(s, at) && !together(s, at) && !otherwise(s, at)) {
            tell(s->rank, at->word, "CRASH: there is no such step");
        }
    }
    return s->failures > 0;
}

static int member(syncline_member *me, void *argument) {
    stage mine = {.me = me, .rank = syncline_member_rank(me)};
    (void)argument;
    int code = play(&mine, (long)mine.rank);
    if (syncline_member_thread(me) == 0) {
        kept = mine;
    }
    return code;
}

static void read_steps(const char *path) {
    FILE *text = fopen(path, "r");
    char line[200], whose[24];
    while (text && count < STEPS && fgets(line, sizeof line, text)) {
        step *at = &steps[count];
        if (sscanf(line, "%23s %23s %llu %llu %llu %llu", whose, at->word, &at->at[0], &at->at[1], &at->at[2], &at->at[3]) < 2) {
            continue;
        }
        at->rank = strcmp(whose, "after") == 0 ? AFTER : atol(whose);
        count++;
    }
    if (!text || count == 0) {
        fprintf(stderr, "CRASH: no steps in %s\n", path);
        exit(97);
    }
    fclose(text);
}

int main(int argc, char **argv) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
    struct sigaction tells = {.sa_handler = crashed};
    for (size_t n = 0; n < sizeof deadly / sizeof *deadly; n++) {
        sigaction(deadly[n], &tells, NULL);
    }
    if (argc < 2) {
        return 97;
    }
    read_steps(argv[1]);
    snprintf(notes, sizeof notes, "%s.notes", argv[1]);
    syncline_shape hosts = {0};
    hosts.hosts = argc > 3 ? (size_t)atol(argv[3]) : 0;
    syncline_status status = syncline_team_run(hosts.hosts ? &hosts : NULL, member, NULL);
    kept.failures = 0;
    heard(&kept, "the team", status);
    play(&kept, AFTER);
    return status != SYNCLINE_STATUS_OK;
}
