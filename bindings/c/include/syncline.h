/* Syncline: ordered read-write locks and the overlays made of them; signals, barriers, queue locks;
 * teams; one-sided memory; farms of processes.
 *
 * Made by cbindgen from bindings/c/src; a test compares the two.
 *
 * Every piece of data is a location with a strict queue of readers and writers. A task asks early (posts),
 * is granted in order, and asks for its next turn before it gives the present one back. So iterative tasks
 * go round for ever, without a global barrier and without deadlock.
 *
 * Data
 *     A location is a name and a queue; the data are the program's. Whoever holds a location by a
 *     reader, or runs as a task that declared it among its reads, may read them; by a writer, or
 *     among the writes, may write them. The library makes what was done under earlier grants
 *     visible under later ones. It cannot see what a program touches: to keep to what was declared
 *     is up to the program.
 *
 * Signals, barriers and queue locks
 *     A signal is a number that only grows, up to SYNCLINE_SIGNAL_MAX, in any memory; raising it
 *     wakes those who wait for the number. A barrier has members by rank, and is gone through by
 *     one thread per rank, episode after episode. A lock has members by rank, too, and is held by
 *     one at a time, in the order in which they ask.
 *
 * Teams
 *     A team runs one function in every member: threads, processes, or threads of processes, as the
 *     program or whoever starts it says. Members make barriers, locks and memory together. Who is
 *     dead, a killed process for one, is an error for those who wait for it, and not a wait for
 *     ever.
 *
 * One-sided memory
 *     An rma is a member's way to memory of which every member has a part: any of them puts into,
 *     gets from and adds to the part of any other, which does nothing for it; within a host in
 *     place, between hosts by messages. Positions are offsets, and all numbers of them bytes. What
 *     was written is seen by others after a fence, and by all after a sync.
 *
 * Farms of processes
 *     A farm has one process that founds it, the manager, and workers, which any of them starts at
 *     any time: for tasks that are irregular, not thread-safe, or crash. Each has a number; any two
 *     exchange messages, which are read where they were written. Who has ended is an error for
 *     those who wait for it. A pool is a farm that hands tasks to workers: whatever becomes of a
 *     worker is the error of its task. No process outlives the manager.
 *
 * Errors
 *     Functions that can fail return a syncline_status, 0 for success; syncline_status_text() says
 *     what a status is. syncline_last_failure() has the rest for the calling thread: what happened,
 *     in words. What is seen to be wrong changes nothing; what cannot be seen, such as an object
 *     that was freed, is undefined: see "Safety" at each function. After a failure every output
 *     (what a function writes by a pointer to a single value) is zero, false or NULL, unless the
 *     function says otherwise. A buffer of the caller is written after a success only. A
 *     syncline_rma_handle is no output: a failure leaves it as it was.
 *
 * Names
 *     A function that waits, waits without an end. With _for behind its name it takes nanoseconds,
 *     waits for that long at most, and is SYNCLINE_STATUS_TIMED_OUT then; SYNCLINE_FOREVER
 *     nanoseconds have no end, 0 only look. With try_ before the verb it does not wait, and is
 *     SYNCLINE_STATUS_NOT_GRANTED if it would have to. Functions that end in _done or _test ask
 *     whether something that was started is over, and tell it by a bool.
 *
 * Threads
 *     Any function may be called from any thread, also from the body of a task, unless it says
 *     otherwise. Different objects may be used at the same time. Of two calls with one handle, one
 *     overlay, one rma, one farm, one pool or one rank of a barrier or lock at the same time the
 *     second is SYNCLINE_STATUS_MISUSE and does nothing; that includes calls with an overlay from
 *     the bodies of its own run; to look at a run there are watches. A handle or a rank may be used
 *     by one thread after another; a location, a watch or a signal by several at the same time.
 *     Bodies that wait for something that is not declared, such as a handle, are not covered by the
 *     check. No function is safe in signal handlers, and none in the child of a fork() while other
 *     threads of the parent were in the library.
 *
 * Objects
 *     What one function makes, one function gives back:
 *
 *         ..._new                      ..._free            objects of the program; readers and writers are handles
 *         syncline_rma_allocate        _deallocate         one-sided memory; _allocate_local, _deallocate_local: buffers
 *         syncline_farm_join           syncline_farm_leave the farm that has started this process
 *         texts, reports, messages,    ..._dispose         what the library hands out
 *         outcomes
 *         syncline_member_...          nothing             what a member makes: given back when its function returns
 *         names, failures              nothing             they belong to what they were asked of
 *
 *     Free in any order: handles and overlays keep what they need of their locations, and messages
 *     and outcomes outlive their farm and pool. A signal is not made: its bytes are zero. NULL is
 *     nothing to give back.
 *
 * Environment
 *     SYNCLINE_THREADS    how many threads a team that the environment shapes has (under MPI: each
 *                         process of it)
 *     SYNCLINE_MEMORY     how many bytes the members of a host share at most, under MPI: 500M, 4G
 *     SYNCLINE_PER_HOST   how many processes of a host share memory, under MPI: the others exchange
 *                         messages with them
 *     SYNCLINE_SERVERS    how many processes of a host serve other hosts
 *     SYNCLINE_TIMEOUT    after how many milliseconds of silence another host counts as dead
 *     SYNCLINE_MPI        the file of the shim for the MPI that is used, if it is not where
 *                         "syncline mpi build" puts it
 *     SYNCLINE_QUIET      1: no warning when members outnumber cores
 *     SYNCLINE_TEAM, SYNCLINE_LAUNCH and SYNCLINE_FARM are set by launchers and managers, for the
 *     processes that they start only; by SYNCLINE_LAUNCH a launcher knows what its processes have
 *     left behind. What the libraries to be preloaded read is said in bindings/c/README.md.
 */


#ifndef SYNCLINE_H
#define SYNCLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The version of the header: what it was made from. It may be older or newer than the library.
 */
#define SYNCLINE_VERSION_MAJOR 0

/**
 * See `SYNCLINE_VERSION_MAJOR`. Until 1.0, other minor versions are other interfaces.
 */
#define SYNCLINE_VERSION_MINOR 1

/**
 * See `SYNCLINE_VERSION_MAJOR`.
 */
#define SYNCLINE_VERSION_PATCH 0

/**
 * The nanoseconds of a `..._for` function that waits without an end.
 */
#define SYNCLINE_FOREVER UINT64_MAX

/**
 * The number of the process that founded a farm.
 */
#define SYNCLINE_FARM_MANAGER 0

/**
 * No process: the parent of a manager.
 */
#define SYNCLINE_FARM_NOBODY UINT64_MAX

/**
 * The largest number that a signal can hold: 2^62 - 1.
 */
#define SYNCLINE_SIGNAL_MAX 4611686018427387903

/**
 * The most that can be added to a signal at once: 2^32.
 */
#define SYNCLINE_SIGNAL_MAX_ADD 4294967296

/**
 * What a function says. Later versions may say more: treat what is not known as a failure.
 */
typedef enum {
  /**
   * It is done.
   */
  SYNCLINE_STATUS_OK = 0,
  /**
   * A `..._try_...` function would have to wait. A request that was posted keeps its place in
   * the queue.
   */
  SYNCLINE_STATUS_NOT_GRANTED = 1,
  /**
   * An argument is `NULL`, or not one of those that exist.
   */
  SYNCLINE_STATUS_INVALID_ARGUMENT = 2,
  /**
   * The right call at the wrong time: a release of what is not held, a run before the check, an
   * object that another thread is using at this moment. Nothing was changed.
   */
  SYNCLINE_STATUS_MISUSE = 3,
  /**
   * Tasks would wait for each other in a circle; the message names it.
   */
  SYNCLINE_STATUS_DEADLOCK = 4,
  /**
   * The tasks cannot be run as they are declared; the message says why.
   */
  SYNCLINE_STATUS_BAD_OVERLAY = 5,
  /**
   * The body of a task returned another number than 0; see `task`, `iteration` and `code`. In an
   * outcome of a pool: the function of the worker said that there is no result.
   */
  SYNCLINE_STATUS_BODY_FAILED = 6,
  /**
   * A location is in another overlay that runs at this moment.
   */
  SYNCLINE_STATUS_IN_USE = 7,
  /**
   * The system gave no thread.
   */
  SYNCLINE_STATUS_NO_THREAD = 8,
  /**
   * An error inside the library.
   */
  SYNCLINE_STATUS_INTERNAL = 9,
  /**
   * Nothing moved any more, and `syncline_watch_stuck` ended the run; the message is its report.
   */
  SYNCLINE_STATUS_STUCK = 10,
  /**
   * The time was over before a wait was. Nothing is lost: it may be called again.
   */
  SYNCLINE_STATUS_TIMED_OUT = 11,
  /**
   * A member is gone (it has left, or is dead), so that the others would wait for ever; the
   * message names it. In a farm: a process that was to send or receive something has ended;
   * `code` is its exit code, or 128 and the signal.
   */
  SYNCLINE_STATUS_GONE = 12,
  /**
   * A member died or returned while it held the lock, and what the lock guards may be half
   * changed; the message names it.
   */
  SYNCLINE_STATUS_POISONED = 13,
  /**
   * A member of a team returned another number than 0, or a process of it did not end well; the
   * message names it, and `code` is the number, or the exit code.
   */
  SYNCLINE_STATUS_MEMBER_FAILED = 14,
  /**
   * The system refused what a team or a farm needs: memory, a process; the message says which.
   */
  SYNCLINE_STATUS_SYSTEM = 15,
  /**
   * There is no room for what was asked for: in the memory of a team, on its host, or in a farm,
   * of processes or of messages that are not received yet. Less is to be asked for, or the team
   * or farm is to be made with more.
   */
  SYNCLINE_STATUS_NO_ROOM = 16,
  /**
   * A message has more elements than there is room for. It is not lost; how many there are was
   * told.
   */
  SYNCLINE_STATUS_TOO_SMALL = 17,
  /**
   * A message is something else than was asked for; the message of the failure says what.
   */
  SYNCLINE_STATUS_GARBLED = 18,
  /**
   * No process of the farm is left that could send anything.
   */
  SYNCLINE_STATUS_ALONE = 19,
  /**
   * A signal is at its end: an addition went past the largest number, `SYNCLINE_SIGNAL_MAX`. It
   * stays there, and every wait for a number ends.
   */
  SYNCLINE_STATUS_CLOSED = 20,
  /**
   * There is no MPI, or no shim that fits it: see `syncline mpi build`.
   */
  SYNCLINE_STATUS_NO_MPI = 21,
  /**
   * The communicator is `MPI_COMM_NULL`, or none of this MPI.
   */
  SYNCLINE_STATUS_BAD_COMMUNICATOR = 22,
  /**
   * The MPI was asked for, or grants, a level of threads that is too low for the call.
   */
  SYNCLINE_STATUS_THREAD_LEVEL = 23,
  /**
   * A call of MPI failed; the message has MPI's own words.
   */
  SYNCLINE_STATUS_MPI_FAILED = 24,
} syncline_status;

/**
 * How the members of a barrier tell one another that they have arrived.
 */
enum syncline_barrier_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * One counter: the best for few members, and whenever they outnumber the cores.
   */
  SYNCLINE_BARRIER_KIND_COUNTER = 0,
  /**
   * Pairs, in rounds, up to one who knows, and back.
   */
  SYNCLINE_BARRIER_KIND_TOURNAMENT = 1,
  /**
   * Everybody tells others, in rounds, until all know.
   */
  SYNCLINE_BARRIER_KIND_DISSEMINATION = 2,
  /**
   * The one that fits the number of members and of cores.
   */
  SYNCLINE_BARRIER_KIND_AUTO = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum syncline_barrier_kind syncline_barrier_kind;
#else
typedef uint32_t syncline_barrier_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How an overlay is shown.
 */
enum syncline_drawing
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * A line for each task: active, or delayed and by whom.
   */
  SYNCLINE_DRAWING_WORDS = 0,
  /**
   * For terminals: locations across, FIFO rank up, squares exclusive and circles inclusive requests.
   */
  SYNCLINE_DRAWING_TEXT = 1,
  /**
   * For graphviz.
   */
  SYNCLINE_DRAWING_DOT = 2,
  /**
   * For browsers and papers.
   */
  SYNCLINE_DRAWING_SVG = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum syncline_drawing syncline_drawing;
#else
typedef uint32_t syncline_drawing;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How a process has come to be no more.
 */
enum syncline_farm_end
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * It has exited.
   */
  SYNCLINE_FARM_END_EXITED = 0,
  /**
   * A signal has killed it.
   */
  SYNCLINE_FARM_END_KILLED = 1,
  /**
   * It could not be started.
   */
  SYNCLINE_FARM_END_NOT_STARTED = 2,
  /**
   * The process that had reserved its number, or was to start it, has ended before.
   */
  SYNCLINE_FARM_END_NEVER_STARTED = 3,
  /**
   * It has ended, and its place was given away: nothing more is known. That may be as soon as the
   * process that has started it was told of its end.
   */
  SYNCLINE_FARM_END_FORGOTTEN = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum syncline_farm_end syncline_farm_end;
#else
typedef uint32_t syncline_farm_end;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * What a message has in it. In Fortran and C, numbers are those of that size.
 */
enum syncline_farm_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * What a program in Rust has sent, if not numbers: its bytes.
   */
  SYNCLINE_FARM_KIND_VALUE = 0,
  /**
   * Bytes: `uint8_t`.
   */
  SYNCLINE_FARM_KIND_U8 = 1,
  /**
   * `int8_t`
   */
  SYNCLINE_FARM_KIND_I8 = 2,
  /**
   * `uint16_t`
   */
  SYNCLINE_FARM_KIND_U16 = 3,
  /**
   * `int16_t`
   */
  SYNCLINE_FARM_KIND_I16 = 4,
  /**
   * `uint32_t`
   */
  SYNCLINE_FARM_KIND_U32 = 5,
  /**
   * `int32_t`
   */
  SYNCLINE_FARM_KIND_I32 = 6,
  /**
   * `uint64_t`
   */
  SYNCLINE_FARM_KIND_U64 = 7,
  /**
   * `int64_t`
   */
  SYNCLINE_FARM_KIND_I64 = 8,
  /**
   * Integers of 16 bytes without a sign.
   */
  SYNCLINE_FARM_KIND_U128 = 9,
  /**
   * Integers of 16 bytes.
   */
  SYNCLINE_FARM_KIND_I128 = 10,
  /**
   * `float`
   */
  SYNCLINE_FARM_KIND_F32 = 11,
  /**
   * `double`
   */
  SYNCLINE_FARM_KIND_F64 = 12,
  /**
   * `size_t`: another kind than `uint64_t`.
   */
  SYNCLINE_FARM_KIND_USIZE = 13,
  /**
   * `ptrdiff_t`: another kind than `int64_t`.
   */
  SYNCLINE_FARM_KIND_ISIZE = 14,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum syncline_farm_kind syncline_farm_kind;
#else
typedef uint32_t syncline_farm_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Who goes first where tasks conflict, for ever.
 */
enum syncline_initial
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * The order of declaration: the results of the sequential program.
   */
  SYNCLINE_INITIAL_PROGRAM = 0,
  /**
   * By depth: on a grid, the diagonals. The results of the sequential program; the tasks form a wave
   * from the first moment.
   */
  SYNCLINE_INITIAL_WAVE = 1,
  /**
   * As many as possible at once: red and black on a grid. Other results than the sequential program's.
   */
  SYNCLINE_INITIAL_MAX_PARALLEL = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum syncline_initial syncline_initial;
#else
typedef uint32_t syncline_initial;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How those who wait for a lock stand in line.
 */
enum syncline_lock_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Numbers are drawn, and one is called: the least work while few want the lock.
   */
  SYNCLINE_LOCK_KIND_TICKET = 0,
  /**
   * A chain, in which each waits for the one before on a line of its own: for many that want it at once.
   */
  SYNCLINE_LOCK_KIND_MCS = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum syncline_lock_kind syncline_lock_kind;
#else
typedef uint32_t syncline_lock_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * What numbers are added to. All wrap around or round as their type does; complex numbers are two, one behind the other.
 */
enum syncline_rma_number
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * `int32_t`.
   */
  SYNCLINE_RMA_NUMBER_I32 = 0,
  /**
   * `int64_t`.
   */
  SYNCLINE_RMA_NUMBER_I64 = 1,
  /**
   * `float`.
   */
  SYNCLINE_RMA_NUMBER_F32 = 2,
  /**
   * `double`.
   */
  SYNCLINE_RMA_NUMBER_F64 = 3,
  /**
   * `float complex`.
   */
  SYNCLINE_RMA_NUMBER_C32 = 4,
  /**
   * `double complex`.
   */
  SYNCLINE_RMA_NUMBER_C64 = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum syncline_rma_number syncline_rma_number;
#else
typedef uint32_t syncline_rma_number;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Who runs the tasks. Later versions may know more.
 */
enum syncline_runner
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * A thread for each task.
   */
  SYNCLINE_RUNNER_THREADS = 0,
  /**
   * So many workers, each home to a part of the tasks, that claim from each other.
   */
  SYNCLINE_RUNNER_POOL = 1,
  /**
   * The same; a worker first takes tasks that waited for what it ran last.
   */
  SYNCLINE_RUNNER_POOL_DEPTH_FIRST = 2,
  /**
   * So many workers, each of which runs its part of the tasks and no others.
   */
  SYNCLINE_RUNNER_STATIC = 3,
  /**
   * As a pool, but over the queues of the locations all the time: the reference for the others.
   */
  SYNCLINE_RUNNER_QUEUES = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum syncline_runner syncline_runner;
#else
typedef uint32_t syncline_runner;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A barrier, with its members: their ranks are 0, 1 and so on. It is for the threads of a process; or one member's part of
 * a barrier of a team.
 */
typedef struct syncline_barrier syncline_barrier;

/**
 * A farm of processes, as one of them has it. It is used by one thread at a time.
 *
 * In a child that `fork` has made of the process, every call with its copy is
 * `SYNCLINE_STATUS_MISUSE`, and undoes nothing: neither frees it nor ends a process. The child may
 * found a farm of its own.
 */
typedef struct syncline_farm syncline_farm;

/**
 * A pool of workers, which are processes. It is used by one thread at a time, and works while that thread waits for
 * outcomes. In a child that `fork` has made of the process, every call with its copy is
 * `SYNCLINE_STATUS_MISUSE`, and undoes nothing.
 */
typedef struct syncline_farm_pool syncline_farm_pool;

/**
 * What a task comes to: set by the function of a worker.
 */
typedef struct syncline_farm_result syncline_farm_result;

/**
 * What a task holds to ask for a location. It has one request at a time. Access belongs to the handle, not
 * to a thread: one thread may post and another acquire, but one at a time.
 */
typedef struct syncline_handle syncline_handle;

/**
 * Something that has a strict queue of readers and writers. What it stands for is the business of the
 * program: a block of an array, a file, a device.
 */
typedef struct syncline_location syncline_location;

/**
 * A lock, with its members: their ranks are 0, 1 and so on. It is for the threads of a process; or one member's part of a
 * lock of a team. What it guards belongs to the program.
 */
typedef struct syncline_lock syncline_lock;

/**
 * Tasks that go round, each with the locations that it reads and writes.
 */
typedef struct syncline_overlay syncline_overlay;

/**
 * A member's way to one-sided memory: memory of which every member has a part, and which any of them reads and writes
 * without the others. It is used by one thread at a time.
 */
typedef struct syncline_rma syncline_rma;

/**
 * An allocation, as one member knows it: so many bytes at each member, at multiples of 128.
 */
typedef struct syncline_rma_memory syncline_rma_memory;

/**
 * A set of mutexes, as one member knows it.
 */
typedef struct syncline_rma_mutexes syncline_rma_mutexes;

/**
 * The present iteration of a task, for its body.
 */
typedef struct syncline_step syncline_step;

/**
 * One of a team. It lives until its function returns, and is used by one thread at a time.
 */
typedef struct syncline_member syncline_member;

/**
 * Looks at an overlay while it runs, from any thread; several may use one watch at the same time.
 */
typedef struct syncline_watch syncline_watch;

/**
 * The last failure of a thread. Later versions may have more fields, at the end.
 */
typedef struct {
  /**
   * What the function returned.
   */
  syncline_status status;
  /**
   * What the body of a task returned, with `SYNCLINE_STATUS_BODY_FAILED`, or a member of a team, with
   * `SYNCLINE_STATUS_MEMBER_FAILED`; of a process of a farm, with `SYNCLINE_STATUS_GONE`, its exit code, or 128 and the
   * signal that has killed it; else 0.
   */
  int code;
  /**
   * The iteration of the task, from 0, if a task failed; else 0.
   */
  uint64_t iteration;
  /**
   * The name of the task that failed; `NULL` if none did.
   */
  const char *task;
  /**
   * What happened, in words, with the names of tasks and locations.
   */
  const char *message;
} syncline_failure;

/**
 * What a farm may take. All that is 0 is left to the library.
 */
typedef struct {
  /**
   * How many processes there are at a time at most, the manager among them; 0 is 1024.
   */
  size_t processes;
  /**
   * How many bytes messages under way may take, in all; 0 is 1 GiB. They take none before they are used.
   */
  size_t memory;
  /**
   * How many bytes each process may have for itself; 0: as many as the system gives. One that wants more is refused by
   * the system, and usually ends.
   */
  uint64_t worker_memory;
  /**
   * How many messages can wait in the channel from one process to another; 0 counts as 1. Who sends one more waits.
   */
  size_t depth;
} syncline_farm_bounds;

/**
 * How a process has ended.
 */
typedef struct {
  /**
   * One of `syncline_farm_end`.
   */
  uint32_t end;
  /**
   * What it has exited with, or the signal that has killed it; else 0.
   */
  int code;
} syncline_exit_cause;

/**
 * A message that was received. Later versions may have more fields, at the end.
 */
typedef struct {
  /**
   * What it has in it: `count` elements, aligned for them and to 16. Not `NULL`; valid until the message is freed.
   */
  const void *data;
  /**
   * How many elements.
   */
  size_t count;
  /**
   * How many bytes they are in all.
   */
  size_t bytes;
  /**
   * Who has sent it.
   */
  uint64_t from;
  /**
   * What the elements are: one of `syncline_farm_kind`.
   */
  uint32_t kind;
} syncline_farm_message;

/**
 * An operation that is under way. All bytes zero: none is; so it begins, and so it is when it has been waited for.
 */
typedef struct {
  /**
   * Read and written by the library.
   */
  uint64_t words[4];
} syncline_rma_handle;

/**
 * One run of a list: bytes in a member's part, and in the program's memory.
 */
typedef struct {
  /**
   * Where they begin in the part.
   */
  size_t offset;
  /**
   * Where they begin in the program's memory. It is read only unless it is a get.
   */
  void *buffer;
  /**
   * How many.
   */
  size_t bytes;
} syncline_rma_segment;

/**
 * What a task does in each iteration: it is called with the `user` pointer of the task and the iteration,
 * from 0. 0 is success; any other number ends the run.
 *
 * It is called when all requests of the task are granted, from any thread of the run, but never twice at
 * the same time for one task; what tasks did before at its locations is visible to it. It must return:
 * neither `longjmp` nor the end of its thread may take it away. An exception that leaves it ends the
 * program. `step` is valid until it returns.
 */
typedef int (*syncline_body)(void *user, uint64_t iteration, syncline_step *step);

/**
 * How a pool works. All that is 0 is left to the library.
 */
typedef struct {
  /**
   * How long a task may take, in nanoseconds; its worker is killed then, with what it has
   * started. 0: as long as it takes.
   */
  uint64_t timeout;
  /**
   * How many bytes each worker may have for itself; 0: as many as the system gives.
   */
  uint64_t worker_memory;
  /**
   * How many bytes tasks and results under way may take, in all; 0 is 1 GiB.
   */
  size_t memory;
  /**
   * How many tasks are handed out together; 0: as the time that they take suggests. Of a batch whose worker is killed
   * those are run again that it had done in the last millisecond: tasks that must never be run twice want 1.
   */
  size_t batch;
  /**
   * How often a task is tried again whose worker has failed; 0: never.
   */
  uint32_t retries;
  /**
   * A process of its own for each task: for libraries that leak, or keep what they should not.
   */
  bool cold;
} syncline_farm_pool_options;

/**
 * What has become of a task. Later versions may have more fields, at the end.
 */
typedef struct {
  /**
   * Which: the number that `syncline_farm_pool_submit` gave.
   */
  uint64_t id;
  /**
   * `SYNCLINE_STATUS_OK`: it has a result. `SYNCLINE_STATUS_BODY_FAILED`: the function of the worker said that it has
   * not. `SYNCLINE_STATUS_GONE`: its worker has ended. `SYNCLINE_STATUS_TIMED_OUT`: it took too long.
   * `SYNCLINE_STATUS_NO_ROOM`: it cannot be sent. `SYNCLINE_STATUS_SYSTEM`: no worker could be started.
   * `SYNCLINE_STATUS_GARBLED`: its worker is none of this kind.
   */
  syncline_status status;
  /**
   * Why it has no result, in words; `NULL` if it has one.
   */
  const char *error;
  /**
   * The result, of `length` bytes, aligned as `malloc` does; not `NULL`.
   */
  const void *bytes;
  /**
   * How many bytes the result has; 0 if there is none.
   */
  size_t length;
} syncline_farm_outcome;

/**
 * How far a pool has come.
 */
typedef struct {
  /**
   * Tasks that were submitted.
   */
  uint64_t submitted;
  /**
   * Tasks that have ended, of those.
   */
  uint64_t ended;
  /**
   * Tasks whose worker has failed for good, of those. What a worker's function says is a result here.
   */
  uint64_t failed;
  /**
   * How often a task was tried again.
   */
  uint64_t retried;
  /**
   * Workers that were started.
   */
  uint64_t started;
  /**
   * Workers that have ended otherwise than they should.
   */
  uint64_t lost;
} syncline_farm_progress;

/**
 * What a worker does for each task, one after the other: `length` bytes at `task`, aligned as `malloc` does, and the pointer
 * of `syncline_farm_serve`. 0 is success, with the bytes of `result`, none if they are not set; any other number is an error
 * of the task.
 *
 * It may exit or crash: that is the error of the task, and another worker goes on with the others. It must not be taken
 * away by `longjmp`; an exception that leaves it is a crash. `task` and `result` are valid until it returns.
 */
typedef int (*syncline_farm_function)(const void *task,
                                      size_t length,
                                      syncline_farm_result *result,
                                      void *context);

/**
 * What a run did. Later versions may have more fields, at the end.
 */
typedef struct {
  /**
   * The most iterations that any task did; all did as many unless some left.
   */
  uint64_t iterations;
  /**
   * Iterations of all tasks together.
   */
  uint64_t steps;
  /**
   * Whether the convergence test was met.
   */
  bool converged;
  /**
   * The first iteration, from 0, whose residual was small enough, if one was.
   */
  uint64_t converged_at;
  /**
   * With a convergence test: the residual of each iteration. `NULL` if there is none.
   */
  const double *residuals;
  /**
   * How many residuals there are.
   */
  size_t residual_count;
  /**
   * Iterations of all tasks together that went over the queues of the locations: with the runners that do so, or
   * while a handle had a request at one of them.
   */
  uint64_t interpreted_steps;
} syncline_report;

/**
 * A number that only grows, from 0 to `SYNCLINE_SIGNAL_MAX`; all bytes zero are a signal at 0. It
 * may stand in any memory, also in memory that processes share, and must not be moved or copied
 * while it is in use. It is read and written by functions of this library only.
 */
typedef struct {
  /**
   * The number, and whether somebody sleeps until it grows.
   */
  uint64_t word;
} syncline_signal;

/**
 * Who takes part in a team. All that is 0 is left to the library.
 */
typedef struct {
  /**
   * So many processes of this program, which the library starts; 0: threads of this process.
   */
  size_t processes;
  /**
   * How many members each process has, as threads; 0 counts as 1.
   */
  size_t threads;
  /**
   * How many bytes the members of a host share at most, barriers and locks included; 0: as
   * `SYNCLINE_MEMORY` says, or as many as the host, or the control group of the program, could
   * have. What is made of them takes them from the system, and fails if there is not enough.
   */
  size_t memory;
  /**
   * So many hosts, as far as the members can tell: groups of threads of this process that share memory within each, and
   * exchange messages between them, as machines do. Each has `threads` members, times `processes`, if that is not 0:
   * groups that receive messages on their own. 0: one host. For tests of programs with one-sided memory; what shares
   * memory, barriers and locks of `syncline_member_...` are not to be had then.
   */
  size_t hosts;
} syncline_shape;

/**
 * What members of a team do: it is called once for each, with the argument of the run. 0 is success.
 *
 * It must return: neither `longjmp` nor the end of its thread may take it away. An exception that leaves it ends the
 * program. `me` is valid until it returns.
 */
typedef int (*syncline_team_function)(syncline_member *me, void *argument);

/**
 * Two words that are read and changed together: a rank and an address, say.
 */
typedef struct {
  /**
   * The word that stands first.
   */
  uint64_t first;
  /**
   * The word behind it.
   */
  uint64_t second;
} syncline_rma_pair;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, as in "0.1.0".
 */
const char *syncline_version(void);

/**
 * Makes a barrier with 1 to 4096 members.
 *
 * `kind` is one of `syncline_barrier_kind`. `radix` is that of a dissemination barrier (in each round a member tells
 * one fewer), or 0: the one that fits; for other kinds it is 0.
 *
 * # Safety
 * `*barrier` can be written.
 */
syncline_status syncline_barrier_new(uint32_t kind,
                                     size_t members,
                                     size_t radix,
                                     syncline_barrier **barrier);

/**
 * Gives a barrier back; `NULL` is nothing. It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a call uses it.
 *
 * # Safety
 * `barrier` comes from `syncline_barrier_new`, and no other call with it begins from now on.
 */
syncline_status syncline_barrier_free(syncline_barrier *barrier);

/**
 * Waits, as the member `rank`, until all have arrived at the episode; arrives first unless that was done.
 *
 * What a member did before it arrived is seen by all after they have waited. A member that is gone, and for whom
 * the others wait in vain, is `SYNCLINE_STATUS_GONE` for all of them: the barrier is of no use any more.
 *
 * # Safety
 * `barrier` was not freed.
 */
syncline_status syncline_barrier_wait(syncline_barrier *barrier,
                                      size_t rank);

/**
 * Like `syncline_barrier_wait`, but waits for `nanoseconds` at most, and is
 * `SYNCLINE_STATUS_TIMED_OUT` then: the member has arrived, stays so, and may wait again.
 *
 * A member that timed out waits again, or stays (in a team: in its function), until the others
 * have passed. If it leaves before, they may be told so: `SYNCLINE_STATUS_GONE`. Only at a counter
 * on one host its arrival is all that they need.
 *
 * # Safety
 * `barrier` was not freed.
 */
syncline_status syncline_barrier_wait_for(syncline_barrier *barrier,
                                          size_t rank,
                                          uint64_t nanoseconds);

/**
 * Arrives, as the member `rank`, at the next episode, and does not wait: to be followed by work that does not need the
 * others, and `syncline_barrier_wait` or `_done`. Does nothing if the member has arrived already.
 *
 * # Safety
 * `barrier` was not freed.
 */
syncline_status syncline_barrier_arrive(syncline_barrier *barrier,
                                        size_t rank);

/**
 * Asks, as the member `rank`, whether the episode at which it has arrived is complete, and does not wait. `*done` is
 * true then, and also if it has arrived at none. But for a counter, the others may need that one who has arrived asks
 * this again and again, or waits.
 *
 * # Safety
 * `barrier` was not freed. `*done` can be written.
 */
syncline_status syncline_barrier_done(syncline_barrier *barrier,
                                      size_t rank,
                                      bool *done);

/**
 * Leaves the barrier as the member `rank`, or on behalf of one that is gone: those who wait for it are told. A rank that
 * has left cannot come back.
 *
 * # Safety
 * `barrier` was not freed.
 */
syncline_status syncline_barrier_leave(syncline_barrier *barrier,
                                       size_t rank);

/**
 * The last failure of the calling thread; `NULL` if there was none.
 *
 * It stays as it is, strings included, until the next call that fails on this thread, or the end of the
 * thread. A call that succeeds leaves it alone.
 */
const syncline_failure *syncline_last_failure(void);

/**
 * Founds a farm, whose manager this process is. `bounds` may be `NULL`: all are left to the library.
 *
 * Each process of a farm leads a process group, and what it starts by other means than the farm
 * belongs to that group. The group is killed when its process has ended, however, and when the
 * manager has. What leaves the group goes on: `setsid`, `setpgid`, daemons. Ctrl-C at a terminal
 * reaches the manager alone, whose end is that of all. Ctrl-Z stops all, and `fg` continues them:
 * from its first start of a process on the manager has a handler of `SIGTSTP` for that, if it has
 * a terminal and the signal its default effect. A program that catches or ignores `SIGTSTP` before
 * keeps that. A worker, and what it starts, ignores `SIGTTIN` and `SIGTTOU`, unless it has said
 * otherwise: what reads from the terminal there gets `EIO`.
 *
 * A bound that makes no sense is `SYNCLINE_STATUS_INVALID_ARGUMENT`; what the system refuses is
 * `SYNCLINE_STATUS_SYSTEM`, or `SYNCLINE_STATUS_NO_ROOM` if that is memory. `*farm` is to be given
 * back by `syncline_farm_free`.
 *
 * # Safety
 * `bounds` is `NULL` or can be read. `*farm` can be written.
 */
syncline_status syncline_farm_new(const syncline_farm_bounds *bounds,
                                  syncline_farm **farm);

/**
 * Takes part in the farm that has started this process: then `*farm` is this worker's, and to be
 * given back by `syncline_farm_leave`. If no farm has started this process `*farm` is `NULL`, and
 * the status that of success.
 *
 * Every process that a farm starts calls this early, before it makes threads. From then on the system kills it when the
 * manager is gone. The second time it is `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * `*farm` can be written.
 */
syncline_status syncline_farm_join(syncline_farm **farm);

/**
 * Gives back a farm that this process has founded; `NULL` is nothing. It kills all processes of
 * the farm that live, and waits for their ends.
 *
 * It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a call uses it. Messages that were received stay as they are.
 *
 * # Safety
 * `farm` comes from `syncline_farm_new`, and no other call with it begins from now on.
 */
syncline_status syncline_farm_free(syncline_farm *farm);

/**
 * Gives back a farm that this process has joined; `NULL` is nothing. The process goes on, and is
 * one of the farm until it ends, but receives and sends nothing any more.
 *
 * It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a call uses it. Messages that were
 * received stay as they are.
 *
 * # Safety
 * `farm` comes from `syncline_farm_join`, and no other call with it begins from now on.
 */
syncline_status syncline_farm_leave(syncline_farm *farm);

/**
 * The number of this process in its farm: `SYNCLINE_FARM_MANAGER`, or a worker's. `SYNCLINE_FARM_NOBODY`, and a failure,
 * if `farm` is `NULL`.
 *
 * # Safety
 * `farm` is `NULL`, or was not freed.
 */
uint64_t syncline_farm_vpid(const syncline_farm *farm);

/**
 * The process that has started this one; `SYNCLINE_FARM_NOBODY` for the manager, and, with a failure, if `farm` is `NULL`.
 *
 * # Safety
 * As `syncline_farm_vpid`.
 */
uint64_t syncline_farm_parent(const syncline_farm *farm);

/**
 * Makes a number for a process that is not born yet, so that it can be sent something first: `syncline_farm_start` starts
 * it. Any process of the farm may. Before it is started it can be sent as many messages as a
 * channel holds; one more waits until it has received one. `SYNCLINE_STATUS_NO_ROOM` if there are
 * as many processes as the bounds allow. One that has ended counts until the process that has
 * started it was told of its end, and all that it had sent messages have received these and looked
 * for more.
 *
 * The texts of failures write a number N as N % 65536, its place, and N / 65536, how many processes
 * had that place before: "3.1" is 65539, and "3" is 3.
 *
 * # Safety
 * `farm` was not freed. `*vpid` can be written.
 */
syncline_status syncline_farm_reserve(syncline_farm *farm,
                                      uint64_t *vpid);

/**
 * Starts the process of a number that this process, or another, has reserved.
 *
 * `program` is looked for as a shell would; `NULL`: this program again. `arguments` are those after its name, and end in
 * `NULL`; they may be `NULL`: none. Its standard input is empty; its other streams, its folder and its environment are
 * those of the manager, whichever process asks.
 *
 * A program that cannot be started is `SYNCLINE_STATUS_SYSTEM`, and the number is used up. A number that was not reserved,
 * or was started, is `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * `farm` was not freed. `program` and `arguments` are strings as above, which nobody writes meanwhile.
 */
syncline_status syncline_farm_start(syncline_farm *farm,
                                    uint64_t vpid,
                                    const char *program,
                                    const char *const *arguments);

/**
 * Starts a process, and tells its number: `syncline_farm_reserve` and `syncline_farm_start` in one.
 *
 * # Safety
 * As both.
 */
syncline_status syncline_farm_spawn(syncline_farm *farm,
                                    const char *program,
                                    const char *const *arguments,
                                    uint64_t *vpid);

/**
 * Waits until a process has ended, and tells how. Any process of the farm may.
 *
 * `cause` may be `NULL`. What the process had sent can be received before and after. It is
 * `SYNCLINE_STATUS_MISUSE` for the number of this process.
 *
 * # Safety
 * `farm` was not freed. `*cause` can be written, if it is not `NULL`.
 */
syncline_status syncline_farm_wait(syncline_farm *farm, uint64_t vpid, syncline_exit_cause *cause);

/**
 * Like `syncline_farm_wait`, but waits for `nanoseconds` at most (0: asks only), and is
 * `SYNCLINE_STATUS_TIMED_OUT` if the process lives still.
 *
 * # Safety
 * As `syncline_farm_wait`.
 */
syncline_status syncline_farm_wait_for(syncline_farm *farm,
                                       uint64_t vpid,
                                       uint64_t nanoseconds,
                                       syncline_exit_cause *cause);

/**
 * Kills a process. Its end is told to all, soon. For the manager; in a worker, and for the manager itself, it is
 * `SYNCLINE_STATUS_MISUSE`. One that has ended is killed already.
 *
 * # Safety
 * `farm` was not freed.
 */
syncline_status syncline_farm_kill(syncline_farm *farm,
                                   uint64_t vpid);

/**
 * The number that the system has for a process of the farm; `*pid` is 0 if it was not started, or has ended long ago. Any
 * process of the farm may ask.
 *
 * # Safety
 * `farm` was not freed. `*pid` can be written.
 */
syncline_status syncline_farm_pid(const syncline_farm *farm,
                                  uint64_t vpid,
                                  uint32_t *pid);

/**
 * How many processes of the farm live, the manager not among them. For the manager; in a worker it is
 * `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * `farm` was not freed. `*living` can be written.
 */
syncline_status syncline_farm_living(const syncline_farm *farm,
                                     size_t *living);

/**
 * Makes a handle whose requests are inclusive: to read, together with neighbouring readers.
 *
 * # Safety
 * `location` comes from `syncline_location_new` and was not freed. `*handle` can be written.
 */
syncline_status syncline_reader_new(const syncline_location *location, syncline_handle **handle);

/**
 * Makes a handle whose requests are exclusive: to write, alone.
 *
 * # Safety
 * `location` comes from `syncline_location_new` and was not freed. `*handle` can be written.
 */
syncline_status syncline_writer_new(const syncline_location *location, syncline_handle **handle);

/**
 * Gives a handle back, and with it what it has posted or holds; `NULL` is nothing. Does not wait. It is
 * `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while another call uses the handle.
 *
 * # Safety
 * `handle` comes from `syncline_reader_new` or `syncline_writer_new`, and no other call with it begins
 * from now on.
 */
syncline_status syncline_handle_free(syncline_handle *handle);

/**
 * Takes the next place in the queue, and returns at once. Does nothing if that was done.
 *
 * # Safety
 * `handle` is one that was not freed.
 */
syncline_status syncline_post(syncline_handle *handle);

/**
 * Posts the first requests of one task over several locations as if at once.
 *
 * Two tasks that both need `a` and `b` could otherwise stand first in one queue and second in the other,
 * each, and wait for ever. If any of the handles cannot be posted, none is.
 *
 * # Safety
 * `handles` points to `count` handles that were not freed.
 */
syncline_status syncline_post_all(syncline_handle *const *handles,
                                  size_t count);

/**
 * Waits until the posted request is granted; posts it first if that was not done.
 *
 * # Safety
 * `handle` is one that was not freed.
 */
syncline_status syncline_acquire(syncline_handle *handle);

/**
 * Like `syncline_acquire`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_TIMED_OUT`
 * then: the request keeps its place in the queue.
 *
 * # Safety
 * `handle` is one that was not freed.
 */
syncline_status syncline_acquire_for(syncline_handle *handle, uint64_t nanoseconds);

/**
 * Like `syncline_acquire`, but does not wait: `SYNCLINE_STATUS_NOT_GRANTED` if it would have to.
 *
 * # Safety
 * `handle` is one that was not freed.
 */
syncline_status syncline_try_acquire(syncline_handle *handle);

/**
 * Posts the next request of a handle that holds its location, and then releases: who goes round keeps its
 * place in the order.
 *
 * # Safety
 * `handle` is one that was not freed.
 */
syncline_status syncline_next(syncline_handle *handle);

/**
 * Releases what the handle holds.
 *
 * # Safety
 * `handle` is one that was not freed.
 */
syncline_status syncline_release(syncline_handle *handle);

/**
 * Takes a posted request back; later ones skip it. Does nothing if nothing is posted.
 *
 * # Safety
 * `handle` is one that was not freed.
 */
syncline_status syncline_abandon(syncline_handle *handle);

/**
 * Makes a location. The name appears in messages.
 *
 * # Safety
 * `name` is a string in UTF-8 that ends in a zero byte; it is copied. `*location` can be written.
 */
syncline_status syncline_location_new(const char *name, syncline_location **location);

/**
 * Gives a location back; `NULL` is nothing. Handles and overlays that were made with it go on.
 *
 * # Safety
 * `location` comes from `syncline_location_new`, and is not used from now on.
 */
void syncline_location_free(syncline_location *location);

/**
 * Makes a lock with 1 to 4096 members. `kind` is one of `syncline_lock_kind`.
 *
 * # Safety
 * `*lock` can be written.
 */
syncline_status syncline_lock_new(uint32_t kind, size_t members, syncline_lock **lock);

/**
 * Gives a lock back; `NULL` is nothing. It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a rank holds it or a
 * call uses it.
 *
 * # Safety
 * `lock` comes from `syncline_lock_new`, and no other call with it begins from now on.
 */
syncline_status syncline_lock_free(syncline_lock *lock);

/**
 * Waits, as the member `rank`, for the lock, in the order in which members ask.
 *
 * What was done under the lock before is seen. It is `SYNCLINE_STATUS_GONE` if it would have to
 * wait and a member is dead, whether or not that member holds it. It is
 * `SYNCLINE_STATUS_POISONED` if a member returned from its team with the lock, or died with it and
 * the lock was repaired, but not recovered. After both `syncline_lock_recover` goes on.
 *
 * # Safety
 * `lock` was not freed.
 */
syncline_status syncline_lock_acquire(syncline_lock *lock, size_t rank);

/**
 * Like `syncline_lock_acquire`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_TIMED_OUT` then: the member
 * keeps its place in the queue, and finds it again if its turn has not come before its next call.
 *
 * # Safety
 * `lock` was not freed.
 */
syncline_status syncline_lock_acquire_for(syncline_lock *lock,
                                          size_t rank,
                                          uint64_t nanoseconds);

/**
 * Like `syncline_lock_acquire`, but does not wait: `SYNCLINE_STATUS_NOT_GRANTED` if it would have to.
 *
 * # Safety
 * `lock` was not freed.
 */
syncline_status syncline_lock_try_acquire(syncline_lock *lock,
                                          size_t rank);

/**
 * Lets go, as the member `rank`.
 *
 * # Safety
 * `lock` was not freed.
 */
syncline_status syncline_lock_release(syncline_lock *lock, size_t rank);

/**
 * Declares the member `rank` dead: its thread has ended, and may have held the lock. Those who wait are told, and every
 * member that is to go on calls `syncline_lock_recover`. A rank that is dead cannot come back.
 *
 * # Safety
 * `lock` was not freed. Nobody touches what the lock guards as this member any more: others may hold the lock at once.
 */
syncline_status syncline_lock_declare_dead(syncline_lock *lock,
                                           size_t rank);

/**
 * Takes the lock, as the member `rank`, in spite of the deaths so far: repairs the queue when all others are out of it,
 * and waits for the lock. `*poisoned` tells whether a member died or returned that held it, and what it
 * guards may be half changed.
 *
 * # Safety
 * `lock` was not freed. `*poisoned` can be written.
 */
syncline_status syncline_lock_recover(syncline_lock *lock,
                                      size_t rank,
                                      bool *poisoned);

/**
 * Like `syncline_lock_recover`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_TIMED_OUT` then: somebody
 * who lives holds the lock, or waits for it, or repairs it.
 *
 * # Safety
 * As `syncline_lock_recover`.
 */
syncline_status syncline_lock_recover_for(syncline_lock *lock,
                                          size_t rank,
                                          uint64_t nanoseconds,
                                          bool *poisoned);

/**
 * Sends `count` elements of a kind, one of `syncline_farm_kind`, to a process, as one message. Any process of the farm
 * may, to any other and to itself, also to one that was reserved only.
 *
 * It returns when the message is in its channel, which it is at once unless as many as the channel
 * holds were not received yet. `SYNCLINE_STATUS_GONE` if the receiver has ended (`code` of the
 * failure is what it has exited with, or 128 and the signal), `SYNCLINE_STATUS_NO_ROOM` if the
 * farm's memory is full, `SYNCLINE_STATUS_MISUSE` if the receiver is this process and its channel
 * is full. In all these cases nothing was sent.
 *
 * What this process did before is seen by the receiver. `from` may be `NULL` if `count` is 0, and is the caller's again
 * when this returns.
 *
 * # Safety
 * `farm` was not freed. `count` elements can be read from `from` on, and nobody writes them meanwhile.
 */
syncline_status syncline_farm_send(syncline_farm *farm,
                                   uint64_t to,
                                   uint32_t kind,
                                   const void *from,
                                   size_t count);

/**
 * Like `syncline_farm_send`, but waits for `nanoseconds` at most, and is
 * `SYNCLINE_STATUS_TIMED_OUT` then: nothing was sent.
 *
 * # Safety
 * As `syncline_farm_send`.
 */
syncline_status syncline_farm_send_for(syncline_farm *farm,
                                       uint64_t to,
                                       uint32_t kind,
                                       const void *from,
                                       size_t count,
                                       uint64_t nanoseconds);

/**
 * Receives the next message of a process, and waits for it.
 *
 * `*message` is read in place, and to be given back by `syncline_farm_message_dispose`.
 * `SYNCLINE_STATUS_GONE` if the process has ended, and all that it had sent was received; `code`
 * of the failure is what it has exited with, or 128 and the signal. `SYNCLINE_STATUS_GARBLED` if
 * what it has sent is no message; that is lost. `SYNCLINE_STATUS_MISUSE` if it is this process, and
 * has sent itself nothing.
 *
 * # Safety
 * `farm` was not freed. `*message` can be written.
 */
syncline_status syncline_farm_recv(syncline_farm *farm,
                                   uint64_t from,
                                   const syncline_farm_message **message);

/**
 * Like `syncline_farm_recv`, but waits for `nanoseconds` at most (0: takes what is there), and is
 * `SYNCLINE_STATUS_TIMED_OUT` then.
 *
 * # Safety
 * As `syncline_farm_recv`.
 */
syncline_status syncline_farm_recv_for(syncline_farm *farm,
                                       uint64_t from,
                                       uint64_t nanoseconds,
                                       const syncline_farm_message **message);

/**
 * Like `syncline_farm_recv`, from any process that has sent something, in turn.
 *
 * `*from` is who has sent it. `SYNCLINE_STATUS_GONE` if a process that this one has started has
 * ended, and not by exiting with 0: once for each, when all that it had sent was received; then
 * `*from` is that process. `SYNCLINE_STATUS_ALONE` for the manager if no other process lives and
 * all that they had sent was received. After this and all other failures `*from` is
 * `SYNCLINE_FARM_NOBODY`. `from` may be `NULL`.
 *
 * # Safety
 * `farm` was not freed. `*message` can be written; so can `*from`, if it is not `NULL`.
 */
syncline_status syncline_farm_recv_any(syncline_farm *farm,
                                       uint64_t *from,
                                       const syncline_farm_message **message);

/**
 * Like `syncline_farm_recv_any`, but waits for `nanoseconds` at most (0: takes what is there), and
 * is `SYNCLINE_STATUS_TIMED_OUT` then.
 *
 * # Safety
 * As `syncline_farm_recv_any`.
 */
syncline_status syncline_farm_recv_any_for(syncline_farm *farm,
                                           uint64_t nanoseconds,
                                           uint64_t *from,
                                           const syncline_farm_message **message);

/**
 * Like `syncline_farm_recv`, into the caller's memory, which has room for `capacity` elements of a kind, one of
 * `syncline_farm_kind`; `*count` is how many came.
 *
 * If there is no room for all it is `SYNCLINE_STATUS_TOO_SMALL`, and `*count` is how many they are; if they are of another
 * kind it is `SYNCLINE_STATUS_GARBLED`. In both cases nothing was written, and the message is the next that is received
 * from that process.
 *
 * # Safety
 * `farm` was not freed. `capacity` elements can be written from `to` on, which may be `NULL` if that is 0, and nobody else
 * uses them meanwhile. `*count` can be written.
 */
syncline_status syncline_farm_recv_into(syncline_farm *farm,
                                        uint64_t from,
                                        uint32_t kind,
                                        void *to,
                                        size_t capacity,
                                        size_t *count);

/**
 * Like `syncline_farm_recv_into`, but waits for `nanoseconds` at most (0: takes what is there),
 * and is `SYNCLINE_STATUS_TIMED_OUT` then.
 *
 * # Safety
 * As `syncline_farm_recv_into`.
 */
syncline_status syncline_farm_recv_into_for(syncline_farm *farm,
                                            uint64_t from,
                                            uint32_t kind,
                                            void *to,
                                            size_t capacity,
                                            uint64_t nanoseconds,
                                            size_t *count);

/**
 * Gives a message back; `NULL` is nothing. Any thread may, also after the farm was freed. What it took of the farm's memory
 * is free for others then.
 *
 * # Safety
 * `message` comes from a function of this library as it is, and is not used from now on.
 */
void syncline_farm_message_dispose(const syncline_farm_message *message);

/**
 * Writes bytes of the program's memory into the part of a member: from `offset` on. When it returns, that memory may be
 * used again; what was written is seen by others after a fence, or a sync.
 *
 * # Safety
 * That of `syncline_member_rma`; `memory` is `NULL`, or comes from `syncline_rma_allocate`.
 * `bytes` can be read from `from` on, and are not where they are written to; no other thread
 * writes them meanwhile.
 */
syncline_status syncline_rma_put(syncline_rma *rma,
                                 const syncline_rma_memory *memory,
                                 size_t rank,
                                 size_t offset,
                                 const void *from,
                                 size_t bytes);

/**
 * Reads bytes of the part of a member, from `offset` on, into the program's memory. When it returns, they are there: what
 * was put before a sync, or before a fence of which this member knows.
 *
 * # Safety
 * As `syncline_rma_put`; `bytes` can be written from `to` on, and nobody else uses them meanwhile.
 */
syncline_status syncline_rma_get(syncline_rma *rma,
                                 const syncline_rma_memory *memory,
                                 size_t rank,
                                 size_t offset,
                                 void *to,
                                 size_t bytes);

/**
 * Adds `*factor` times numbers of the program's memory to numbers of the part of a member. `number` is one of
 * `syncline_rma_number`, of which `bytes` and `offset` are whole multiples. Each number is added in one step, of complex
 * ones each part; so those of several members all count.
 *
 * # Safety
 * As `syncline_rma_put`; `*factor` is such a number.
 */
syncline_status syncline_rma_accumulate(syncline_rma *rma,
                                        const syncline_rma_memory *memory,
                                        size_t rank,
                                        size_t offset,
                                        uint32_t number,
                                        const void *factor,
                                        const void *from,
                                        size_t bytes);

/**
 * Starts `syncline_rma_put`: the program's memory may be used again at once. `handle` is waited for until what was
 * written is there for all to see; `NULL`: the implicit one.
 *
 * # Safety
 * As `syncline_rma_put`. `*handle` can be read and written, if it is not `NULL`.
 */
syncline_status syncline_rma_start_put(syncline_rma *rma,
                                       const syncline_rma_memory *memory,
                                       size_t rank,
                                       size_t offset,
                                       const void *from,
                                       size_t bytes,
                                       syncline_rma_handle *handle);

/**
 * Starts `syncline_rma_get`, and returns at once. `handle` is waited for, or `NULL`: the implicit one.
 *
 * # Safety
 * As `syncline_rma_get`, until it has been waited for, or the function of the member returns. `*handle` can be read and
 * written, if it is not `NULL`.
 */
syncline_status syncline_rma_start_get(syncline_rma *rma,
                                       const syncline_rma_memory *memory,
                                       size_t rank,
                                       size_t offset,
                                       void *to,
                                       size_t bytes,
                                       syncline_rma_handle *handle);

/**
 * Starts `syncline_rma_accumulate`: the program's memory may be used again at once. `handle` is waited for until what was
 * written is there for all to see; `NULL`: the implicit one.
 *
 * # Safety
 * As `syncline_rma_accumulate`. `*handle` can be read and written, if it is not `NULL`.
 */
syncline_status syncline_rma_start_accumulate(syncline_rma *rma,
                                              const syncline_rma_memory *memory,
                                              size_t rank,
                                              size_t offset,
                                              uint32_t number,
                                              const void *factor,
                                              const void *from,
                                              size_t bytes,
                                              syncline_rma_handle *handle);

/**
 * Writes a section of the program's memory into the part of a member: `counts[0]` bytes side by side; `counts[1]` of such
 * runs, `there[0]` bytes apart in the part and `here[0]` in the program's memory, from beginning to beginning; `counts[2]`
 * of such groups, `there[1]` and `here[1]` apart; and so on, for `levels` distances and one more count. Runs that overlap
 * where they are written are `SYNCLINE_STATUS_INVALID_ARGUMENT`.
 *
 * # Safety
 * As `syncline_rma_put`, for the bytes of the section; the arrays have as many numbers.
 */
syncline_status syncline_rma_put_strided(syncline_rma *rma,
                                         const syncline_rma_memory *memory,
                                         size_t rank,
                                         size_t offset,
                                         const size_t *there,
                                         const void *from,
                                         const size_t *here,
                                         const size_t *counts,
                                         size_t levels);

/**
 * Reads a section of the part of a member into the program's memory: see `syncline_rma_put_strided`.
 *
 * # Safety
 * As `syncline_rma_get`, and `syncline_rma_put_strided`.
 */
syncline_status syncline_rma_get_strided(syncline_rma *rma,
                                         const syncline_rma_memory *memory,
                                         size_t rank,
                                         size_t offset,
                                         const size_t *there,
                                         void *to,
                                         const size_t *here,
                                         const size_t *counts,
                                         size_t levels);

/**
 * Adds `*factor` times the numbers of a section: see `syncline_rma_accumulate` and `syncline_rma_put_strided`.
 *
 * # Safety
 * As both.
 */
syncline_status syncline_rma_accumulate_strided(syncline_rma *rma,
                                                const syncline_rma_memory *memory,
                                                size_t rank,
                                                size_t offset,
                                                uint32_t number,
                                                const void *factor,
                                                const size_t *there,
                                                const void *from,
                                                const size_t *here,
                                                const size_t *counts,
                                                size_t levels);

/**
 * Starts `syncline_rma_put_strided`: the program's memory may be used again at once. `handle` is waited for until what was
 * written is there for all to see; `NULL`: the implicit one.
 *
 * # Safety
 * As `syncline_rma_put_strided`. `*handle` can be read and written, if it is not `NULL`.
 */
syncline_status syncline_rma_start_put_strided(syncline_rma *rma,
                                               const syncline_rma_memory *memory,
                                               size_t rank,
                                               size_t offset,
                                               const size_t *there,
                                               const void *from,
                                               const size_t *here,
                                               const size_t *counts,
                                               size_t levels,
                                               syncline_rma_handle *handle);

/**
 * Starts `syncline_rma_get_strided`, and returns at once. `handle` is waited for, or `NULL`: the implicit one.
 *
 * # Safety
 * As `syncline_rma_get_strided`, until it has been waited for, or the function of the member returns. `*handle` can be read and
 * written, if it is not `NULL`.
 */
syncline_status syncline_rma_start_get_strided(syncline_rma *rma,
                                               const syncline_rma_memory *memory,
                                               size_t rank,
                                               size_t offset,
                                               const size_t *there,
                                               void *to,
                                               const size_t *here,
                                               const size_t *counts,
                                               size_t levels,
                                               syncline_rma_handle *handle);

/**
 * Starts `syncline_rma_accumulate_strided`: the program's memory may be used again at once. `handle` is waited for until what was
 * written is there for all to see; `NULL`: the implicit one.
 *
 * # Safety
 * As `syncline_rma_accumulate_strided`. `*handle` can be read and written, if it is not `NULL`.
 */
syncline_status syncline_rma_start_accumulate_strided(syncline_rma *rma,
                                                      const syncline_rma_memory *memory,
                                                      size_t rank,
                                                      size_t offset,
                                                      uint32_t number,
                                                      const void *factor,
                                                      const size_t *there,
                                                      const void *from,
                                                      const size_t *here,
                                                      const size_t *counts,
                                                      size_t levels,
                                                      syncline_rma_handle *handle);

/**
 * Writes a list of runs into the part of a member.
 *
 * # Safety
 * As `syncline_rma_put`, for each segment; `list` has `length` of them.
 */
syncline_status syncline_rma_put_list(syncline_rma *rma,
                                      const syncline_rma_memory *memory,
                                      size_t rank,
                                      const syncline_rma_segment *list,
                                      size_t length);

/**
 * Reads a list of runs of the part of a member.
 *
 * # Safety
 * As `syncline_rma_get`, for each segment; `list` has `length` of them.
 */
syncline_status syncline_rma_get_list(syncline_rma *rma,
                                      const syncline_rma_memory *memory,
                                      size_t rank,
                                      const syncline_rma_segment *list,
                                      size_t length);

/**
 * Adds `*factor` times the numbers of a list of runs: see `syncline_rma_accumulate`.
 *
 * # Safety
 * As `syncline_rma_accumulate`, for each segment; `list` has `length` of them.
 */
syncline_status syncline_rma_accumulate_list(syncline_rma *rma,
                                             const syncline_rma_memory *memory,
                                             size_t rank,
                                             uint32_t number,
                                             const void *factor,
                                             const syncline_rma_segment *list,
                                             size_t length);

/**
 * Starts `syncline_rma_put_list`: the program's memory may be used again at once. `handle` is waited for until what was
 * written is there for all to see; `NULL`: the implicit one.
 *
 * # Safety
 * As `syncline_rma_put_list`. `*handle` can be read and written, if it is not `NULL`.
 */
syncline_status syncline_rma_start_put_list(syncline_rma *rma,
                                            const syncline_rma_memory *memory,
                                            size_t rank,
                                            const syncline_rma_segment *list,
                                            size_t length,
                                            syncline_rma_handle *handle);

/**
 * Starts `syncline_rma_get_list`, and returns at once. `handle` is waited for, or `NULL`: the implicit one.
 *
 * # Safety
 * As `syncline_rma_get_list`, until it has been waited for, or the function of the member returns. `*handle` can be read and
 * written, if it is not `NULL`.
 */
syncline_status syncline_rma_start_get_list(syncline_rma *rma,
                                            const syncline_rma_memory *memory,
                                            size_t rank,
                                            const syncline_rma_segment *list,
                                            size_t length,
                                            syncline_rma_handle *handle);

/**
 * Starts `syncline_rma_accumulate_list`: the program's memory may be used again at once. `handle` is waited for until what was
 * written is there for all to see; `NULL`: the implicit one.
 *
 * # Safety
 * As `syncline_rma_accumulate_list`. `*handle` can be read and written, if it is not `NULL`.
 */
syncline_status syncline_rma_start_accumulate_list(syncline_rma *rma,
                                                   const syncline_rma_memory *memory,
                                                   size_t rank,
                                                   uint32_t number,
                                                   const void *factor,
                                                   const syncline_rma_segment *list,
                                                   size_t length,
                                                   syncline_rma_handle *handle);

/**
 * Makes so many mutexes at this member, with all others, who make as many as they like. They are queues: members get a
 * mutex in the order in which they asked, and between hosts one message hands it over.
 *
 * # Safety
 * That of `syncline_member_rma`. `*mutexes` can be written.
 */
syncline_status syncline_rma_mutexes_new(syncline_rma *rma,
                                         size_t count,
                                         syncline_rma_mutexes **mutexes);

/**
 * Waits for a mutex of the member `rank`, and takes it. If the member that held it has returned
 * without letting it go, it is `SYNCLINE_STATUS_POISONED`, now and later; if that has died,
 * `SYNCLINE_STATUS_GONE`. To ask for one that this member holds is
 * `SYNCLINE_STATUS_INVALID_ARGUMENT`.
 *
 * # Safety
 * That of `syncline_member_rma`. `mutexes` is `NULL`, or comes from `syncline_rma_mutexes_new`.
 */
syncline_status syncline_rma_lock(syncline_rma *rma,
                                  const syncline_rma_mutexes *mutexes,
                                  size_t rank,
                                  size_t index);

/**
 * Like `syncline_rma_lock`, but waits for `nanoseconds` at most, and is
 * `SYNCLINE_STATUS_TIMED_OUT` then. The place in the queue stays, and the next call for this mutex
 * finds it again. If the mutex comes to the place meanwhile, it goes on to the next member that
 * waits, and the next call asks anew.
 *
 * # Safety
 * As `syncline_rma_lock`.
 */
syncline_status syncline_rma_lock_for(syncline_rma *rma,
                                      const syncline_rma_mutexes *mutexes,
                                      size_t rank,
                                      size_t index,
                                      uint64_t nanoseconds);

/**
 * Lets a mutex go, when everything that this member has written is done: who holds it next sees that.
 *
 * # Safety
 * As `syncline_rma_lock`.
 */
syncline_status syncline_rma_unlock(syncline_rma *rma,
                                    const syncline_rma_mutexes *mutexes,
                                    size_t rank,
                                    size_t index);

/**
 * Gives the set back, with all members. If one of them holds one of its mutexes, that is
 * `SYNCLINE_STATUS_INVALID_ARGUMENT` for that member and `SYNCLINE_STATUS_MISUSE` for the others,
 * and the set is as it was.
 *
 * # Safety
 * As `syncline_rma_lock`.
 */
syncline_status syncline_rma_mutexes_free(syncline_rma *rma, syncline_rma_mutexes *mutexes);

/**
 * Makes an overlay without tasks.
 *
 * # Safety
 * `*overlay` can be written.
 */
syncline_status syncline_overlay_new(syncline_overlay **overlay);

/**
 * Gives an overlay back; `NULL` is nothing. It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while
 * it runs or another call uses it.
 *
 * # Safety
 * `overlay` comes from `syncline_overlay_new`, and no other call with it begins from now on.
 */
syncline_status syncline_overlay_free(syncline_overlay *overlay);

/**
 * Declares a task: its name, the locations that it reads and writes, and what it does in each iteration.
 *
 * `*task` gets its number in the order of declaration, from 0; `task` may be `NULL`. An array of no
 * locations may be `NULL`. No location may be in both, or twice in one: the check would refuse it.
 *
 * # Safety
 * * `overlay` was not freed. `name` is a string in UTF-8 that ends in a zero byte; it is copied.
 * * `reads` and `writes` point to so many locations that were not freed; the arrays are copied.
 * * `task` is `NULL`, or `*task` can be written.
 * * Until the overlay is freed, `body` may be called with `user` from any thread.
 */
syncline_status syncline_overlay_task(syncline_overlay *overlay,
                                      const char *name,
                                      syncline_location *const *reads,
                                      size_t read_count,
                                      syncline_location *const *writes,
                                      size_t write_count,
                                      syncline_body body,
                                      void *user,
                                      uint32_t *task);

/**
 * Sets the order of the first requests at one location by hand, in place of the order of the check. It must
 * name each task that uses the location once. This is how a deadlock can be made; the check finds it.
 *
 * # Safety
 * `overlay` and `location` were not freed. `tasks` points to `count` numbers.
 */
syncline_status syncline_overlay_order(syncline_overlay *overlay,
                                       const syncline_location *location,
                                       const uint32_t *tasks,
                                       size_t count);

/**
 * Checks that the tasks can never deadlock, as long as bodies wait for nothing else and handles used by hand
 * are released. `initial` is one of `syncline_initial`.
 *
 * From then on the overlay can be run, and not be changed. `SYNCLINE_STATUS_DEADLOCK` has the circle in
 * which the tasks would wait in its message; `SYNCLINE_STATUS_BAD_OVERLAY` has what else is wrong. After
 * either, the overlay is as it was.
 *
 * # Safety
 * `overlay` was not freed.
 */
syncline_status syncline_overlay_check(syncline_overlay *overlay,
                                       uint32_t initial);

/**
 * Like `syncline_overlay_check`, with the order given by numbers, one for each task in the order of
 * declaration; smaller first, equal ones in the order of declaration.
 *
 * # Safety
 * `overlay` was not freed. `priorities` points to `count` numbers.
 */
syncline_status syncline_overlay_check_priorities(syncline_overlay *overlay,
                                                  const int64_t *priorities,
                                                  size_t count);

/**
 * The tasks of a checked overlay that can start at once: the first `capacity` of their numbers go to
 * `tasks`, and how many there are to `*count`. With a capacity of 0 `tasks` may be `NULL`.
 *
 * # Safety
 * `overlay` was not freed. `capacity` numbers can be written to `tasks`, and one to `count`.
 */
syncline_status syncline_overlay_active(const syncline_overlay *overlay,
                                        uint32_t *tasks,
                                        size_t capacity,
                                        size_t *count);

/**
 * The name of a task. It stays until the overlay is freed.
 *
 * # Safety
 * `overlay` was not freed. `*name` can be written.
 */
syncline_status syncline_overlay_task_name(const syncline_overlay *overlay,
                                           uint32_t task,
                                           const char **name);

/**
 * Reports the size of the task's update, for `syncline_overlay_run_until`.
 *
 * # Safety
 * `step` is what the body of a task was given, and the body has not returned. No other thread uses it.
 */
syncline_status syncline_step_report(syncline_step *step,
                                     double norm);

/**
 * Makes this the last iteration of the task: nobody waits for it from now on.
 *
 * # Safety
 * `step` is what the body of a task was given, and the body has not returned. No other thread uses it.
 */
syncline_status syncline_step_leave(syncline_step *step);

/**
 * Makes a pool of so many workers, which run a program with arguments, as at `syncline_farm_start`: `NULL` is this program
 * again. They call `syncline_farm_serve`, early. `options` may be `NULL`.
 *
 * Workers are started when there is something to do. It is `SYNCLINE_STATUS_INVALID_ARGUMENT` if there are to be none, or
 * more than 1024, or an option makes no sense; `SYNCLINE_STATUS_SYSTEM` if the system refuses something. `*pool` is to be
 * given back by `syncline_farm_pool_free`.
 *
 * # Safety
 * `program` and `arguments` are as at `syncline_farm_start`. `options` is `NULL` or can be read. `*pool` can be written.
 */
syncline_status syncline_farm_pool_new(size_t workers,
                                       const char *program,
                                       const char *const *arguments,
                                       const syncline_farm_pool_options *options,
                                       syncline_farm_pool **pool);

/**
 * Submits a task of `length` bytes; `*id`, if it is not `NULL`, is its number: they are counted from 0. It is begun when
 * somebody waits for outcomes.
 *
 * Tasks of higher `priority` are begun first, and of one priority those of the largest `cost`, in whatever unit; 0 for
 * both is in the order in which they come. `task` may be `NULL` if `length` is 0, and is the caller's again when this
 * returns.
 *
 * # Safety
 * `pool` was not freed. `length` bytes can be read from `task` on, and nobody writes them meanwhile. `*id` can be written,
 * if it is not `NULL`.
 */
syncline_status syncline_farm_pool_submit(syncline_farm_pool *pool,
                                          const void *task,
                                          size_t length,
                                          int32_t priority,
                                          double cost,
                                          uint64_t *id);

/**
 * Waits for the next task that ends, whichever it is. `*outcome` is to be given back by
 * `syncline_farm_outcome_dispose`; it is `NULL` when all tasks have ended and were told.
 *
 * What becomes of a task is in its outcome, and no failure of this call.
 *
 * # Safety
 * `pool` was not freed. `*outcome` can be written.
 */
syncline_status syncline_farm_pool_next(syncline_farm_pool *pool,
                                        const syncline_farm_outcome **outcome);

/**
 * Like `syncline_farm_pool_next`, but waits for `nanoseconds` at most (0: takes what is there),
 * and is `SYNCLINE_STATUS_TIMED_OUT` then: tasks go on, but nothing is handed out before the next
 * call.
 *
 * # Safety
 * As `syncline_farm_pool_next`.
 */
syncline_status syncline_farm_pool_next_for(syncline_farm_pool *pool,
                                            uint64_t nanoseconds,
                                            const syncline_farm_outcome **outcome);

/**
 * Gives an outcome back; `NULL` is nothing. Any thread may, also after the pool was freed.
 *
 * # Safety
 * `outcome` comes from `syncline_farm_pool_next_for` as it is, and is not used from now on.
 */
void syncline_farm_outcome_dispose(const syncline_farm_outcome *outcome);

/**
 * Tells how far a pool has come.
 *
 * # Safety
 * `pool` was not freed. `*progress` can be written.
 */
syncline_status syncline_farm_pool_progress(const syncline_farm_pool *pool,
                                            syncline_farm_progress *progress);

/**
 * Has the workers of a pool end by themselves, those that are at nothing, waits for that, and
 * kills the others. Tasks that have not ended are lost. From then on all calls with the pool but
 * `syncline_farm_pool_free` are `SYNCLINE_STATUS_MISUSE`.
 *
 * It is `SYNCLINE_STATUS_MISUSE`, and nothing happens, while a call uses it.
 *
 * # Safety
 * `pool` was not freed.
 */
syncline_status syncline_farm_pool_finish(syncline_farm_pool *pool);

/**
 * Gives a pool back, and kills its workers; `NULL` is nothing. Outcomes that were taken stay as they are.
 *
 * It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a call uses it.
 *
 * # Safety
 * `pool` comes from `syncline_farm_pool_new`, and no other call with it begins from now on.
 */
syncline_status syncline_farm_pool_free(syncline_farm_pool *pool);

/**
 * Serves a pool, if this process is a worker of one: calls `function` with `context` for each task that it is given, and
 * exits when there are no more. In any other process it returns at once, with success.
 *
 * A worker calls it early, before it makes threads, and in place of `syncline_farm_join`: after that it is
 * `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * `function` may be called with `context`, on this thread.
 */
syncline_status syncline_farm_serve(syncline_farm_function function,
                                    void *context);

/**
 * Sets the result of a task to a copy of `length` bytes, in place of what was set before. For the function of a worker.
 * `bytes` may be `NULL` if `length` is 0. `SYNCLINE_STATUS_NO_ROOM` if there is no memory for it.
 *
 * # Safety
 * `result` is `NULL`, or its function has not returned. `length` bytes can be read from `bytes` on.
 */
syncline_status syncline_farm_result_set(syncline_farm_result *result,
                                         const void *bytes,
                                         size_t length);

/**
 * Makes the result of a task `length` bytes, all zero, in place of what was set before; they are written from `*bytes` on,
 * aligned as `malloc` does. For the function of a worker. `SYNCLINE_STATUS_NO_ROOM` if there is no
 * memory for it.
 *
 * # Safety
 * `result` is `NULL`, or its function has not returned. `*bytes` can be written; what it points to is used until the
 * function returns, or the result is set again.
 */
syncline_status syncline_farm_result_room(syncline_farm_result *result,
                                          size_t length,
                                          void **bytes);

/**
 * Says why a task has no result, in words, which are copied. For the function of a worker; whatever that returns is then an
 * error of the task, with these words.
 *
 * # Safety
 * `result` is `NULL`, or its function has not returned. `words` is `NULL`, which is an error, or a string that ends in a
 * zero byte.
 */
syncline_status syncline_farm_result_fail(syncline_farm_result *result,
                                          const char *words);

/**
 * Makes a member's way to one-sided memory, with all others: all members make it, as at `syncline_member_barrier`. It is
 * given back when the function returns; gets that are under way then are given up. A call with it later is
 * `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * `me` is `NULL`, or its function has not returned. `*rma` can be written. Of rmas of functions that have returned, no
 * more than the last thousand are passed to this library.
 */
syncline_status syncline_member_rma(syncline_member *me,
                                    syncline_rma **rma);

/**
 * Allocates so many bytes of this member's, all zero; the others allocate as many as they like, 0 too. Each part begins at
 * a multiple of 128. All members allocate and free together, in the same order, and wait for one another; if one host has
 * no room, it is `SYNCLINE_STATUS_NO_ROOM` for all. What is not freed is given back with the team.
 *
 * # Safety
 * As for all functions with an rma, that of `syncline_member_rma`. `*memory` can be written.
 */
syncline_status syncline_rma_allocate(syncline_rma *rma,
                                      size_t bytes,
                                      syncline_rma_memory **memory);

/**
 * Like `syncline_rma_allocate`, but waits for `nanoseconds` at most, and is
 * `SYNCLINE_STATUS_TIMED_OUT` then: the allocation is begun. The same call, with as many bytes, or
 * `syncline_rma_allocate` goes on where it was; until it is done, what else all members do with
 * this rma together is `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * As `syncline_rma_allocate`.
 */
syncline_status syncline_rma_allocate_for(syncline_rma *rma,
                                          size_t bytes,
                                          uint64_t nanoseconds,
                                          syncline_rma_memory **memory);

/**
 * Frees memory, with all members: what any of them has done to it before is done, and this member's gets have come. To
 * use it afterwards, or to free it again, is `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * That of `syncline_member_rma`. `memory` is `NULL`, or comes from `syncline_rma_allocate`.
 */
syncline_status syncline_rma_deallocate(syncline_rma *rma,
                                        syncline_rma_memory *memory);

/**
 * The part of a member, as memory, if it is on the host of this one; else `NULL`, without a failure. It is there until it
 * is freed. Others may read and write it at any time.
 *
 * # Safety
 * `memory` is `NULL`, or comes from `syncline_rma_allocate`; of its rma, as at
 * `syncline_member_rma`.
 */
void *syncline_rma_address(const syncline_rma_memory *memory,
                           size_t rank);

/**
 * How many bytes a member has of an allocation; `SIZE_MAX`, and a failure, if that cannot be told.
 *
 * # Safety
 * As `syncline_rma_address`.
 */
size_t syncline_rma_bytes(const syncline_rma_memory *memory, size_t rank);

/**
 * Allocates memory of the program's own, all zero, aligned to 128: to put from and get into. It is freed by
 * `syncline_rma_deallocate_local`, or when the function of the member returns.
 * `SYNCLINE_STATUS_NO_ROOM` if there is no such memory.
 *
 * # Safety
 * That of `syncline_member_rma`. `*buffer` can be written.
 */
syncline_status syncline_rma_allocate_local(syncline_rma *rma,
                                            size_t bytes,
                                            void **buffer);

/**
 * Frees what `syncline_rma_allocate_local` allocated; `NULL` is nothing. What was freed already is
 * `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * That of `syncline_member_rma`. Nothing is on its way into the buffer.
 */
syncline_status syncline_rma_deallocate_local(syncline_rma *rma, void *buffer);

/**
 * Runs the tasks of a checked overlay, so many iterations each, and returns when all have stopped.
 *
 * `runner` is one of `syncline_runner`; `workers` is how many a pool has, the calling thread among them (0
 * counts as 1). `*report` gets what was done, and `NULL` after an error; `report` may be `NULL`. An overlay
 * can be run again.
 *
 * # Safety
 * `overlay` was not freed. `report` is `NULL`, or `*report` can be written.
 */
syncline_status syncline_overlay_run(syncline_overlay *overlay,
                                     uint32_t runner,
                                     size_t workers,
                                     uint64_t iterations,
                                     syncline_report **report);

/**
 * Like `syncline_overlay_run`, until the greatest `syncline_step_report` of an iteration, in absolute
 * value, is at most `tolerance`, or for `at_most` iterations.
 *
 * All tasks stop at one common iteration, some behind that one: while the last tasks finish an iteration, others
 * are ahead. The tasks must depend on each other, if only by way of others; none may leave.
 *
 * # Safety
 * `overlay` was not freed. `report` is `NULL`, or `*report` can be written.
 */
syncline_status syncline_overlay_run_until(syncline_overlay *overlay,
                                           uint32_t runner,
                                           size_t workers,
                                           double tolerance,
                                           uint64_t at_most,
                                           syncline_report **report);

/**
 * Gives a report back; `NULL` is nothing.
 *
 * # Safety
 * `report` comes from a run, and is not used from now on.
 */
void syncline_report_dispose(syncline_report *report);

/**
 * Reads a signal. What was done before it was raised to that number is seen after this call.
 *
 * # Safety
 * `signal` points to a signal. `*number` can be written.
 */
syncline_status syncline_signal_get(const syncline_signal *signal, uint64_t *number);

/**
 * Raises a signal to a number, if it is lower, and wakes the threads that wait for that. A number
 * above `SYNCLINE_SIGNAL_MAX` is `SYNCLINE_STATUS_INVALID_ARGUMENT`, here and for waits.
 *
 * # Safety
 * `signal` points to a signal.
 */
syncline_status syncline_signal_raise_to(syncline_signal *signal, uint64_t number);

/**
 * Adds to a signal, and wakes the threads that wait. `*now`, unless `now` is `NULL`, is the sum.
 *
 * More than `SYNCLINE_SIGNAL_MAX_ADD` is `SYNCLINE_STATUS_INVALID_ARGUMENT`: nothing was added. If
 * the sum would be more than `SYNCLINE_SIGNAL_MAX`, the signal is closed, and stays at that
 * number; the threads that wait for it go on, and this and every later addition is
 * `SYNCLINE_STATUS_CLOSED`.
 *
 * # Safety
 * `signal` points to a signal. `*now` can be written, or `now` is `NULL`.
 */
syncline_status syncline_signal_add(syncline_signal *signal, uint64_t n, uint64_t *now);

/**
 * Waits until a signal is at least `number`, however long that takes: where a member of a team may die that is to raise
 * it, use `syncline_member_await`.
 *
 * # Safety
 * `signal` points to a signal, which stays where it is until this call returns.
 */
syncline_status syncline_signal_wait(const syncline_signal *signal,
                                     uint64_t number);

/**
 * Like `syncline_signal_wait`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_TIMED_OUT` then.
 *
 * # Safety
 * As `syncline_signal_wait`.
 */
syncline_status syncline_signal_wait_for(const syncline_signal *signal,
                                         uint64_t number,
                                         uint64_t nanoseconds);

/**
 * What a status is, in a few words: "timed out". Never `NULL`; for a number that is no status,
 * "unknown status".
 *
 * `status` is a `syncline_status`, or a number that a program has kept as one. The text stays for
 * ever. What exactly happened is in `syncline_last_failure`.
 */
const char *syncline_status_text(int status);

/**
 * Waits for an operation, whose handle may be used again then; `NULL`: for all that were started without one. A get has
 * come; what was written is there for all to see. A handle that is zero is nothing to wait for.
 *
 * # Safety
 * That of `syncline_member_rma`. `handle` is `NULL`, or can be read and written.
 */
syncline_status syncline_rma_wait(syncline_rma *rma,
                                  syncline_rma_handle *handle);

/**
 * Looks whether an operation is done, as `syncline_rma_wait` waits for it, and does not wait. If so, the handle may be
 * used again.
 *
 * # Safety
 * As `syncline_rma_wait`. `*done` can be written.
 */
syncline_status syncline_rma_test(syncline_rma *rma,
                                  syncline_rma_handle *handle,
                                  bool *done);

/**
 * Waits for everything that this member has started, with handles or without. Handles are waited for still, at once.
 *
 * # Safety
 * That of `syncline_member_rma`.
 */
syncline_status syncline_rma_wait_all(syncline_rma *rma);

/**
 * Waits until everything that this member has written to the memory of `rank` is there for all to see.
 *
 * # Safety
 * That of `syncline_member_rma`.
 */
syncline_status syncline_rma_fence(syncline_rma *rma,
                                   size_t rank);

/**
 * Waits until everything that this member has written, to whatever member, is there for all to see.
 *
 * # Safety
 * That of `syncline_member_rma`.
 */
syncline_status syncline_rma_fence_all(syncline_rma *rma);

/**
 * Waits until all members have come here, and everything that any of them has written before is done: a fence of all and
 * a barrier in one. What any did before is seen by whoever comes out. A member that is gone is `SYNCLINE_STATUS_GONE`.
 *
 * # Safety
 * That of `syncline_member_rma`.
 */
syncline_status syncline_rma_sync(syncline_rma *rma);

/**
 * Like `syncline_rma_sync`, but waits for `nanoseconds` at most, and is
 * `SYNCLINE_STATUS_TIMED_OUT` then: this member has arrived and stays so, and what it writes from
 * then on is of the next sync. The same call, `syncline_rma_sync`, `syncline_rma_sync_wait` or
 * `syncline_rma_sync_done` goes on; until it is complete, no allocation or the like is begun:
 * `SYNCLINE_STATUS_MISUSE`.
 *
 * A member that timed out calls one of them again, or stays in its function, until the others have
 * passed. If it returns before, they may be told that it has left: `SYNCLINE_STATUS_GONE`.
 *
 * # Safety
 * That of `syncline_member_rma`.
 */
syncline_status syncline_rma_sync_for(syncline_rma *rma, uint64_t nanoseconds);

/**
 * Arrives at a sync, and does not wait: what is written from now on is of the next. `syncline_rma_sync_wait` follows, or
 * `syncline_rma_sync_done` until that says so; until then no other sync, allocation or free is begun:
 * `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * That of `syncline_member_rma`.
 */
syncline_status syncline_rma_sync_start(syncline_rma *rma);

/**
 * Waits until the sync at which this member has arrived is complete. Without one that was started
 * it is `SYNCLINE_STATUS_MISUSE`.
 *
 * # Safety
 * That of `syncline_member_rma`.
 */
syncline_status syncline_rma_sync_wait(syncline_rma *rma);

/**
 * Like `syncline_rma_sync_wait`, but waits for `nanoseconds` at most, and is
 * `SYNCLINE_STATUS_TIMED_OUT` then: it may be called again.
 *
 * # Safety
 * That of `syncline_member_rma`.
 */
syncline_status syncline_rma_sync_wait_for(syncline_rma *rma, uint64_t nanoseconds);

/**
 * Looks whether the sync at which this member has arrived is complete, and does not wait. `*done` is true then, and also
 * if it has arrived at none.
 *
 * # Safety
 * That of `syncline_member_rma`. `*done` can be written.
 */
syncline_status syncline_rma_sync_done(syncline_rma *rma,
                                       bool *done);

/**
 * As `syncline_rma_sync`, also for those who look past it, such as devices: all is in the memory of all hosts.
 *
 * # Safety
 * That of `syncline_member_rma`.
 */
syncline_status syncline_rma_sync_global(syncline_rma *rma);

/**
 * Runs a function in every member of a team, and returns when those of this process have returned.
 *
 * `shape` says who takes part. `NULL`: the environment says it, that is the processes that `syncline launch` or an MPI
 * launcher (`mpirun`, with a shim: `syncline mpi build`) started, or else threads of this process, as many as `SYNCLINE_THREADS` says or as it has cores. Without `processes`: threads of
 * this process. With `processes`: this program is started so many times, with the same arguments. There no member is
 * run, and the call returns when all have ended; in those that were started it is the call in which they take part. If
 * `syncline launch` has started this process, it takes part in that team, whatever the numbers are; but without
 * `processes` it has a team of threads for itself. A process that was started takes part once. The first member of a
 * process runs on the thread that calls this.
 *
 * A member that returns another number than 0, or a process that does not end well, is
 * `SYNCLINE_STATUS_MEMBER_FAILED`: `code` is the number, the message has the rank. In a process that was started the
 * program then should end with another number than 0 itself. A member that returns while it holds a lock is
 * `SYNCLINE_STATUS_MISUSE`, and to the others the lock is poisoned.
 *
 * # Safety
 * `shape` is `NULL` or can be read. `function` may be called with `argument` by several threads at the same time.
 */
syncline_status syncline_team_run(const syncline_shape *shape,
                                  syncline_team_function function,
                                  void *argument);

/**
 * As `syncline_team_run` with `NULL` for a shape; and once more in a smaller team, of those who are left, when processes have
 * died.
 *
 * The function is called again in all who live, even in those in which it had ended well, until it has ended in a team in
 * which nobody died; the status is that of this team. Ranks are counted anew, in the same order, and
 * `syncline_member_died` says how many processes are missing. What was in memory of the team is gone. Whoever is told of a
 * death returns, with any number, and is called again.
 *
 * This takes an MPI that goes on after a death: Open MPI 5 under `mpirun --with-ft ulfm`. Elsewhere members are told of the
 * death, and the team ends. If a process dies before MPI has been initialised in all, Open MPI waits for it for ever.
 *
 * # Safety
 * As `syncline_team_run`.
 */
syncline_status syncline_team_run_shrinking(syncline_team_function function,
                                            void *argument);

/**
 * Runs a function in every member of a team of the processes of an MPI communicator, within a program that has initialised
 * MPI itself, and returns when those of this process have returned.
 *
 * `communicator` is its Fortran handle: `MPI_Comm_c2f(comm)`. The team has a duplicate of it, so its messages and the
 * program's do not meet; MPI is left as it is, and other teams may follow. Every process of the communicator calls it.
 * Of `shape` only `threads` and `memory` are looked at; `NULL`: one member each. Between hosts the team has a thread that
 * serves, if the program asked for `MPI_THREAD_SERIALIZED` or more; else members are served while they wait only.
 *
 * There must be a shim for the program's MPI: `syncline mpi build --mpicc mpicc` makes it. Results are as those of
 * `syncline_team_run`.
 *
 * # Safety
 * As `syncline_team_run`. `communicator` is the handle of a communicator of this process.
 */
syncline_status syncline_team_run_mpi(int communicator,
                                      const syncline_shape *shape,
                                      syncline_team_function function,
                                      void *argument);

/**
 * Which of the members this is, from 0. Like the others of its kind, `SIZE_MAX` if `me` is `NULL`.
 *
 * # Safety
 * `me` is `NULL`, or its function has not returned.
 */
size_t syncline_member_rank(const syncline_member *me);

/**
 * How many members there are.
 *
 * # Safety
 * As `syncline_member_rank`.
 */
size_t syncline_member_size(const syncline_member *me);

/**
 * Which of the processes this member is in, from 0.
 *
 * # Safety
 * As `syncline_member_rank`.
 */
size_t syncline_member_process(const syncline_member *me);

/**
 * How many processes there are.
 *
 * # Safety
 * As `syncline_member_rank`.
 */
size_t syncline_member_processes(const syncline_member *me);

/**
 * Which of its process's members this is, from 0.
 *
 * # Safety
 * As `syncline_member_rank`.
 */
size_t syncline_member_thread(const syncline_member *me);

/**
 * How many members each process has.
 *
 * # Safety
 * As `syncline_member_rank`.
 */
size_t syncline_member_threads(const syncline_member *me);

/**
 * Which of the hosts this member is on, from 0: groups of processes that share memory. There is one, unless the shape of
 * the team has several.
 *
 * # Safety
 * As `syncline_member_rank`.
 */
size_t syncline_member_host(const syncline_member *me);

/**
 * How many hosts there are.
 *
 * # Safety
 * As `syncline_member_rank`.
 */
size_t syncline_member_hosts(const syncline_member *me);

/**
 * How many processes have died before this team was made of those who were left: see `syncline_team_run_shrinking`.
 *
 * # Safety
 * As `syncline_member_rank`.
 */
size_t syncline_member_died(const syncline_member *me);

/**
 * Waits until all members have come here, each as often as the others. One that is dead, or has returned, is
 * `SYNCLINE_STATUS_GONE`, with its rank in the message; so is the end of the launcher.
 *
 * If members are in different calls that all of them have to make together, so that none can
 * complete, each gets `SYNCLINE_STATUS_MISUSE`, and the message names two of them with their
 * calls. That holds for this call, barriers of the team, `syncline_rma_sync` and all else that
 * members do together, without a time limit; a member that is slow, or waits for a limited time,
 * is never taken for such a one. The team is of no use any more then: calls that would have to
 * wait for other members fail in the same way, and the functions of the members are to return.
 *
 * # Safety
 * `me` is `NULL`, or its function has not returned.
 */
syncline_status syncline_member_wait(syncline_member *me);

/**
 * Like `syncline_member_wait`, but waits for `nanoseconds` at most, and is
 * `SYNCLINE_STATUS_TIMED_OUT` then: this member has arrived and stays so, and may call either
 * again to go on.
 *
 * A member that timed out waits again, or stays in its function, until the others have passed. If
 * it returns before, members on other hosts are told that it has left: `SYNCLINE_STATUS_GONE`.
 * Those of its own host may be told so as well.
 *
 * # Safety
 * As `syncline_member_wait`.
 */
syncline_status syncline_member_wait_for(syncline_member *me, uint64_t nanoseconds);

/**
 * Waits until a signal is at least `number`, and ends with `SYNCLINE_STATUS_GONE` as soon as any
 * member of the team is dead, with its rank in the message.
 *
 * # Safety
 * `me` is `NULL`, or its function has not returned. `signal` points to a signal, which stays where it is until this call
 * returns.
 */
syncline_status syncline_member_await(syncline_member *me,
                                      const syncline_signal *signal,
                                      uint64_t number);

/**
 * Like `syncline_member_await`, but waits for `nanoseconds` at most, and is
 * `SYNCLINE_STATUS_TIMED_OUT` then.
 *
 * # Safety
 * As `syncline_member_await`.
 */
syncline_status syncline_member_await_for(syncline_member *me,
                                          const syncline_signal *signal,
                                          uint64_t number,
                                          uint64_t nanoseconds);

/**
 * Makes a barrier of all members, and takes this one's seat: `kind` and `radix` are as in `syncline_barrier_new`.
 *
 * It is used as one from there, each member with its own pointer and its own rank; it is given back when the function
 * returns, and not by `syncline_barrier_free`. All members make the same things, with the same numbers, in the same
 * order: barriers, locks and memory. Nobody waits for the others; who returns without its part is dead to them.
 *
 * # Safety
 * `me` is `NULL`, or its function has not returned. `*barrier` can be written.
 */
syncline_status syncline_member_barrier(syncline_member *me,
                                        uint32_t kind,
                                        size_t radix,
                                        syncline_barrier **barrier);

/**
 * Makes a lock of all members, and takes this one's seat: `kind` is one of `syncline_lock_kind`. What is said at
 * `syncline_member_barrier` holds here. Deaths are declared by the team, not by `syncline_lock_declare_dead`.
 *
 * # Safety
 * `me` is `NULL`, or its function has not returned. `*lock` can be written.
 */
syncline_status syncline_member_lock(syncline_member *me,
                                     uint32_t kind,
                                     syncline_lock **lock);

/**
 * Makes memory that all members share: so many bytes, all zero at first, aligned to 128, the same for all, each of whom
 * asks for it as at `syncline_member_barrier`. Processes have it at different addresses, so pointers into it mean
 * nothing to others. `*memory` is valid until the function returns. `SYNCLINE_STATUS_NO_ROOM` if
 * the team's memory, or the host, has fewer bytes left.
 *
 * # Safety
 * `me` is `NULL`, or its function has not returned. `*memory` can be written. What is written there while another member
 * may look is written by atomic operations, such as those of a signal.
 */
syncline_status syncline_member_memory(syncline_member *me,
                                       size_t bytes,
                                       void **memory);

/**
 * Gives a text back that a function of this library made; `NULL` is nothing.
 *
 * # Safety
 * `text` comes from such a function as it is, and is not used from now on.
 */
void syncline_text_dispose(char *text);

/**
 * Shows the first requests of a checked overlay, as every run queues them.
 *
 * `drawing` is one of `syncline_drawing`. `*text` is to be given back by `syncline_text_dispose`.
 *
 * # Safety
 * `overlay` was not freed. `*text` can be written.
 */
syncline_status syncline_overlay_draw(const syncline_overlay *overlay,
                                      uint32_t drawing,
                                      char **text);

/**
 * Makes a watch over a checked overlay, before or between its runs: one cannot be made during a run. It goes on
 * when the overlay is freed, and then sees nothing.
 *
 * # Safety
 * `overlay` was not freed. `*watch` can be written.
 */
syncline_status syncline_watch_new(const syncline_overlay *overlay,
                                   syncline_watch **watch);

/**
 * Gives a watch back; `NULL` is nothing.
 *
 * # Safety
 * `watch` comes from `syncline_watch_new`; no call uses it now or later.
 */
void syncline_watch_free(syncline_watch *watch);

/**
 * Shows who stands where at this moment: which tasks run, which are delayed and by whom.
 *
 * `*text` is `NULL` if the overlay does not run; else it is to be given back by
 * `syncline_text_dispose`.
 *
 * # Safety
 * `watch` was not freed. `*text` can be written.
 */
syncline_status syncline_watch_draw(const syncline_watch *watch, uint32_t drawing, char **text);

/**
 * Waits until no task of the run has ended an iteration for `patience` nanoseconds, and reports who waits for whom, and
 * since when.
 *
 * `*text` is `NULL` if the run has ended before (told once for each run), or if none is under way
 * and none begins for as long, or, at once, if the overlay was freed; else it is to be given back
 * by `syncline_text_dispose`. With `SYNCLINE_DRAWING_WORDS` it is the whole report, with another
 * drawing the queues of that moment. If `end_run` is true the run then fails with
 * `SYNCLINE_STATUS_STUCK` and the report as its message, as soon as the bodies under way have
 * returned; unless it has ended by itself in between.
 *
 * A checked overlay cannot deadlock: a body takes longer than `patience`, or waits for something that was not declared.
 *
 * # Safety
 * `watch` was not freed. `*text` can be written.
 */
syncline_status syncline_watch_stuck(const syncline_watch *watch,
                                     uint64_t patience,
                                     bool end_run,
                                     uint32_t drawing,
                                     char **text);

/**
 * Adds to a word of the part of a member, at `offset` bytes; `*before` is what was there.
 *
 * # Safety
 * That of `syncline_member_rma`; `memory` is `NULL`, or comes from `syncline_rma_allocate`.
 * `*before` can be written.
 */
syncline_status syncline_rma_fetch_add_i32(syncline_rma *rma,
                                           const syncline_rma_memory *memory,
                                           size_t rank,
                                           size_t offset,
                                           int32_t value,
                                           int32_t *before);

/**
 * As `syncline_rma_fetch_add_i32`, for words of 8 bytes.
 *
 * # Safety
 * As `syncline_rma_fetch_add_i32`.
 */
syncline_status syncline_rma_fetch_add_i64(syncline_rma *rma,
                                           const syncline_rma_memory *memory,
                                           size_t rank,
                                           size_t offset,
                                           int64_t value,
                                           int64_t *before);

/**
 * Replaces a word of the part of a member; `*before` is what was there.
 *
 * # Safety
 * As `syncline_rma_fetch_add_i32`.
 */
syncline_status syncline_rma_swap_i32(syncline_rma *rma,
                                      const syncline_rma_memory *memory,
                                      size_t rank,
                                      size_t offset,
                                      int32_t value,
                                      int32_t *before);

/**
 * As `syncline_rma_swap_i32`, for words of 8 bytes.
 *
 * # Safety
 * As `syncline_rma_fetch_add_i32`.
 */
syncline_status syncline_rma_swap_i64(syncline_rma *rma,
                                      const syncline_rma_memory *memory,
                                      size_t rank,
                                      size_t offset,
                                      int64_t value,
                                      int64_t *before);

/**
 * Replaces a pair of words of the part of a member; `*before` is what was there.
 *
 * # Safety
 * As `syncline_rma_fetch_add_i32`.
 */
syncline_status syncline_rma_swap_pair(syncline_rma *rma,
                                       const syncline_rma_memory *memory,
                                       size_t rank,
                                       size_t offset,
                                       syncline_rma_pair value,
                                       syncline_rma_pair *before);

/**
 * Replaces a word of the part of a member if it is `old`; `*before` is what was there.
 *
 * # Safety
 * As `syncline_rma_fetch_add_i32`.
 */
syncline_status syncline_rma_compare_swap_i32(syncline_rma *rma,
                                              const syncline_rma_memory *memory,
                                              size_t rank,
                                              size_t offset,
                                              int32_t old,
                                              int32_t new_,
                                              int32_t *before);

/**
 * As `syncline_rma_compare_swap_i32`, for words of 8 bytes.
 *
 * # Safety
 * As `syncline_rma_fetch_add_i32`.
 */
syncline_status syncline_rma_compare_swap_i64(syncline_rma *rma,
                                              const syncline_rma_memory *memory,
                                              size_t rank,
                                              size_t offset,
                                              int64_t old,
                                              int64_t new_,
                                              int64_t *before);

/**
 * Replaces a pair of words of the part of a member if it is `old`; `*before` is what was there.
 *
 * # Safety
 * As `syncline_rma_fetch_add_i32`.
 */
syncline_status syncline_rma_compare_swap_pair(syncline_rma *rma,
                                               const syncline_rma_memory *memory,
                                               size_t rank,
                                               size_t offset,
                                               syncline_rma_pair old,
                                               syncline_rma_pair new_,
                                               syncline_rma_pair *before);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SYNCLINE_H */
