/* Syncline's barrier in programs of MPI as they are: LD_PRELOAD=libsyncline_pmpi.so takes MPI_Barrier on MPI_COMM_WORLD over.
 *
 *   mpicc -O2 -shared -fPIC pmpi.c -o libsyncline_pmpi.so $(pkg-config --cflags --libs syncline) -ldl
 *   mpirun -n 4 -x LD_PRELOAD=$PWD/libsyncline_pmpi.so program            (MPICH: -genv LD_PRELOAD ...)
 *
 * Contract: that of MPI_Barrier. Processes of one host meet in memory, hosts by messages; other communicators are left to
 * MPI. All processes are preloaded, and there is a shim for their MPI (`syncline mpi build`). At the first barrier all
 * agree whether it is taken over: by the thread that initialised MPI, and not if MPI lets threads take turns only
 * (MPI_THREAD_SERIALIZED), as turns between the program's calls and ours are nobody's business to take. What cannot be taken
 * over is MPI's own barrier, and said so. SYNCLINE_PMPI_VERBOSE=1: rank 0 says at the end how many barriers there were.
 *
 * The function of a team must not return while the program goes on. So it has a stack of its own:
 *
 *   program      first MPI_Barrier          MPI_Barrier               MPI_Finalize
 *                    │  ▲                        │                        │  ▲
 *                    ▼  │ meets                  ▼ meets                  ▼  │
 *   side stack   team_run(stay)   ............. stays .............   stay returns, the team ends
 *
 * Costs: the team's barrier, and a comparison for barriers of others. Source: the profiling interface of the MPI standard. */

#define _GNU_SOURCE
#include <dlfcn.h>
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

/* All members of the team are here while the program goes on. */
static int stay(syncline_member *me, void *nothing)
{
    (void)nothing;
    member = me;
    swapcontext(&side, &program);
    member = NULL;
    return 0;
}

static void run(void)
{
    ended = syncline_team_run_mpi(MPI_Comm_c2f(MPI_COMM_WORLD), NULL, stay, NULL);
}

/* The team begins, or MPI's own barriers stay. Collective. */
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
    getcontext(&side);
    side.uc_stack.ss_sp = stack;
    side.uc_stack.ss_size = STACK;
    side.uc_link = &program;
    makecontext(&side, run, 0);
    swapcontext(&program, &side);
    /* A team that has failed has failed everywhere, or will be waited for. */
    mine = member != NULL;
    PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all) {
        state = TAKEN;
    } else if (member) {
        swapcontext(&program, &side);
    } else {
        fprintf(stderr, "syncline: rank %d: MPI_Barrier stays MPI's own: %s\n", rank, syncline_last_failure()->message);
    }
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

/* Fortran's, which would come here by PMPI only. */
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
