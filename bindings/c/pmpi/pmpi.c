/* Syncline's barrier for unchanged MPI programs: LD_PRELOAD=libsyncline_pmpi.so replaces
 * MPI_Barrier on MPI_COMM_WORLD.
 *
 *   mpicc -O2 -shared -fPIC pmpi.c -o libsyncline_pmpi.so \
 *         $(pkg-config --cflags --libs syncline) -ldl
 *   mpirun -n 4 -x LD_PRELOAD=$PWD/libsyncline_pmpi.so program     (MPICH: -genv LD_PRELOAD ...)
 *
 * Contract: that of MPI_Barrier. Processes of one host meet in memory, hosts by messages; other
 * communicators are left to MPI. All processes must be preloaded, and there must be a shim for
 * their MPI: the first program builds it, or `syncline mpi build`.
 *
 * A process that waits in the barrier takes part in MPI, as in MPI's own: where it would sleep, it
 * drives MPI's progress, some 2000 times a second. So a message, a collective call or a one-sided
 * operation that another process completes before its barrier does not wait for the end of this
 * one.
 *
 * At the first barrier all processes agree whether it is replaced. It is replaced only if that
 * barrier is called by the thread that initialised MPI, and if the thread level is not
 * MPI_THREAD_SERIALIZED: at that level only the program could keep its calls and those of this
 * library apart. Otherwise the barrier stays MPI's own, and a message says so. With
 * SYNCLINE_PMPI_VERBOSE=1, rank 0 prints the number of barriers at the end.
 *
 * The function of a team must not return while the program continues, so it has a stack of its own:
 *
 *   program      first MPI_Barrier          MPI_Barrier               MPI_Finalize
 *                    │  ▲                        │                        │  ▲
 *                    ▼  │ meets                  ▼ meets                  ▼  │
 *   side stack   team_run(stay)   ............. stays .............   stay returns, the team ends
 *
 * Costs: the team's barrier, and a comparison for barriers of other communicators. A barrier that
 * ends within some 50 microseconds drives nothing. Source: the
 * profiling interface of the MPI standard. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <syncline.h>

enum { STACK = 8 << 20 };

static enum { UNKNOWN, TAKEN, LEFT } state = UNKNOWN;
static ucontext_t program, side;
static syncline_member *member;
static syncline_status ended;
static unsigned long barriers;

/* The function of the team, in which every member stays while the program continues. */
static int stay(syncline_member *me, void *nothing)
{
    (void)nothing;
    member = me;
    swapcontext(&side, &program);
    member = NULL;
    return 0;
}

/* The function of a team that only shows that this process can have one. */
static int leave(syncline_member *me, void *nothing)
{
    (void)me;
    (void)nothing;
    return 0;
}

static void run(void)
{
    ended = syncline_team_run_mpi(MPI_Comm_c2f(MPI_COMM_WORLD), NULL, stay, NULL);
}

/* Returns whether all processes can have a team. Collective. The first one that cannot says why, as
 * others fail alike. */
static int all_can(int mine, int rank)
{
    int without = mine ? INT_MAX : rank, teller = 0;
    PMPI_Allreduce(&without, &teller, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == teller)
        fprintf(stderr, "syncline: rank %d: MPI_Barrier stays MPI's own: %s\n", rank, syncline_last_failure()->message);
    return teller == INT_MAX;
}

/* Starts the team, or leaves the barrier to MPI. Collective. */
static void begin(void)
{
    int level = MPI_THREAD_SINGLE, first = 0, all = 0, rank = 0;
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    PMPI_Query_thread(&level);
    PMPI_Is_thread_main(&first);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int mine = first && level != MPI_THREAD_SERIALIZED && stack != MAP_FAILED;
    state = LEFT;
    if (PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS || !all) {
        if (rank == 0)
            fprintf(stderr, "syncline: MPI_Barrier stays MPI's own: see pmpi.c for when\n");
        if (stack != MAP_FAILED)
            munmap(stack, STACK);
        return;
    }
    /* Alone first: a process that has no shim cannot tell the others once they wait for it. */
    mine = syncline_team_run_mpi(MPI_Comm_c2f(MPI_COMM_SELF), NULL, leave, NULL) == SYNCLINE_STATUS_OK;
    if (!all_can(mine, rank)) {
        munmap(stack, STACK);
        return;
    }
    getcontext(&side);
    side.uc_stack.ss_sp = stack;
    side.uc_stack.ss_size = STACK;
    side.uc_link = &program;
    makecontext(&side, run, 0);
    swapcontext(&program, &side);
    /* A team that fails in one process fails in all, or the others would wait; agree on the result.
     */
    if (all_can(member != NULL, rank))
        state = TAKEN;
    else if (member)
        swapcontext(&program, &side);
}

int MPI_Barrier(MPI_Comm communicator)
{
    if (communicator != MPI_COMM_WORLD)
        return PMPI_Barrier(communicator);
    if (state == UNKNOWN)
        begin();
    if (state == LEFT)
        return PMPI_Barrier(communicator);
    barriers++;
    if (syncline_member_wait(member) == SYNCLINE_STATUS_OK)
        return MPI_SUCCESS;
    fprintf(stderr, "syncline: MPI_Barrier: %s\n", syncline_last_failure()->message);
    PMPI_Comm_call_errhandler(communicator, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

static void end(void)
{
    int rank = 0;
    if (state != TAKEN)
        return;
    state = LEFT;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    swapcontext(&program, &side);
    if (ended != SYNCLINE_STATUS_OK)
        fprintf(stderr, "syncline: rank %d: %s\n", rank, syncline_last_failure()->message);
    if (rank == 0 && getenv("SYNCLINE_PMPI_VERBOSE"))
        fprintf(stderr, "syncline: %lu calls of MPI_Barrier were taken over\n", barriers);
}

int MPI_Finalize(void)
{
    end();
    return PMPI_Finalize();
}

/* Fortran's entry points, which would otherwise reach this file by PMPI only. */
void mpi_barrier_(MPI_Fint *communicator, MPI_Fint *error)
{
    *error = MPI_Barrier(MPI_Comm_f2c(*communicator));
}

void mpi_finalize_(MPI_Fint *error)
{
    void (*next)(MPI_Fint *) = (void (*)(MPI_Fint *))(uintptr_t)dlsym(RTLD_NEXT, "mpi_finalize_");
    end();
    if (next)
        next(error);
    else
        *error = PMPI_Finalize();
}
