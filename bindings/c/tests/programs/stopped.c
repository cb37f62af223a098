/* Rank 1 is stopped for five seconds, as by a debugger: with the default time limit the others wait
 * for it. Run by tests/c/programs.rs and tests/c/inside_mpi.rs. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

static int member(syncline_member *me, void *argument) {
    size_t rank = syncline_member_rank(me), next = (rank + 1) % syncline_member_size(me);
    int64_t mine = (int64_t)rank, word;
    syncline_rma *rma;
    syncline_rma_memory *memory;
    (void)argument;
    OK(syncline_member_rma(me, &rma));
    OK(syncline_rma_allocate(rma, 8, &memory));
    if (rank == 1) {
        pid_t self = getpid();
        if (fork() == 0) {
            struct timespec five = {5, 0};
            nanosleep(&five, NULL);
            if (getppid() == self) {
                kill(self, SIGCONT);
            }
            _exit(0);
        }
        raise(SIGSTOP);
    }
    if (syncline_rma_put(rma, memory, next, 0, &mine, 8) != SYNCLINE_STATUS_OK ||
        syncline_rma_sync(rma) != SYNCLINE_STATUS_OK) {
        fprintf(stderr, "rank %d: %s\n", (int)rank, syncline_last_failure()->message);
        return 1;
    }
    OK(syncline_rma_get(rma, memory, next, 0, &word, 8));
    EXPECT(word == mine);
    OK(syncline_member_wait(me));
    return 0;
}

int main(int count, char **arguments) {
    const syncline_shape three = {3, 1, 0, 0};
    (void)arguments;
    if (syncline_team_run(count > 1 ? &three : NULL, member, NULL) != SYNCLINE_STATUS_OK) {
        fprintf(stderr, "%s\n", syncline_last_failure()->message);
        return 1;
    }
    puts("the stopped rank was waited for");
    return 0;
}
