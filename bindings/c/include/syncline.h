/* Syncline: ordered read-write locks and the overlays made of them; signals, barriers, queue locks;
 * teams.
 *
 * Made by cbindgen from bindings/c/src; a test compares the two.
 *
 * Every piece of data is a location with a strict queue of readers and writers. A task asks early (posts),
 * is granted in order, and asks for its next turn before it gives the present one back. So iterative tasks
 * go round for ever, without a global barrier and without deadlock.
 *
 * Data
 *     A location is a name and a queue; the data are the program's. Whoever holds a location by a reader,
 *     or runs as a task that declared it among its reads, may read them; by a writer, or among the writes,
 *     may write them. The library makes what was done under earlier grants visible under later ones. It
 *     cannot see what a program touches: to keep to what was declared is up to the program.
 *
 * Signals, barriers and queue locks
 *     A signal is a number that only grows, in any memory: whoever raises it wakes those who wait for the number. A
 *     barrier has members by rank, and is gone through by one thread per rank, episode after episode. A lock has
 *     members by rank, too, and is held by one at a time, in the order in which they ask.
 *
 * Teams
 *     A team runs one function in every member: threads, processes, or threads of processes, as
 *     the program or whoever starts it says. Members make barriers, locks and memory together. Who is dead, a killed
 *     process for one, is an error for those who wait for it, and not a wait for ever.
 *
 * Errors
 *     Functions that can fail return a syncline_status, 0 for success. syncline_last_failure() tells the
 *     rest for the calling thread. What is seen to be wrong changes nothing; what cannot be seen, such as an
 *     object that was freed, is undefined: see "Safety" at each function.
 *
 * Threads
 *     Any function may be called from any thread, also from the body of a task, unless it says otherwise.
 *     Different objects may be used at the same time. Of two calls with one handle, one overlay or one rank of a
 *     barrier or lock at the same time the second is SYNCLINE_STATUS_MISUSE and does nothing; that includes calls with
 *     an overlay from the bodies of its own run; to look at a run there are watches. A handle or a rank may be used
 *     by one thread after another; a location, a watch or a signal by several at the same time. Bodies that
 *     wait for something that is not declared, such as a handle, are not covered by the check. No function is safe in signal handlers, and none in the child of a
 *     fork() while other threads of the parent were in the library.
 *
 * Objects
 *     What a function ..._new() makes, the function ..._free() of that kind gives back. Free in any order:
 *     handles and overlays keep what they need of their locations. A signal is not made: its bytes are zero. What a
 *     member of a team makes is given back when its function returns.
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
 * What a function says. Later versions may say more: treat what is not known as a failure.
 */
typedef enum {
  /**
   * It is done.
   */
  SYNCLINE_STATUS_OK = 0,
  /**
   * The request is not granted, not yet or not before the deadline. It keeps its place in the queue.
   */
  SYNCLINE_STATUS_NOT_GRANTED = 1,
  /**
   * An argument is `NULL`, or not one of those that exist.
   */
  SYNCLINE_STATUS_INVALID_ARGUMENT = 2,
  /**
   * The right call at the wrong time: a release of what is not held, a run before the check, an object
   * that another thread is using at this moment. Nothing was changed.
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
   * The body of a task returned another number than 0; see `task`, `iteration` and `code`.
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
   * A member is gone (it has left, or is dead), so that the others would wait for ever; the message names it.
   */
  SYNCLINE_STATUS_GONE = 12,
  /**
   * A member died or returned while it held the lock, and what the lock guards may be half changed; the message names it.
   */
  SYNCLINE_STATUS_POISONED = 13,
  /**
   * A member of a team returned another number than 0, or a process of it did not end well; the message names it, and
   * `code` is the number, or the exit code.
   */
  SYNCLINE_STATUS_MEMBER_FAILED = 14,
  /**
   * The system refused what a team needs: memory, a process; the message says which.
   */
  SYNCLINE_STATUS_SYSTEM = 15,
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
   * `SYNCLINE_STATUS_MEMBER_FAILED`; else 0.
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
 * A number that only grows, from 0 to 2^63 - 1; all bytes zero are a signal at 0. It may stand in any memory, also
 * in memory that processes share, and must not be moved or copied while it is in use. It is read and written by
 * functions of this library only.
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
   * How many bytes the members share at most, barriers and locks included; 0 is 256 MiB. They take none before they
   * are used.
   */
  size_t memory;
} syncline_shape;

/**
 * What members of a team do: it is called once for each, with the argument of the run. 0 is success.
 *
 * It must return: neither `longjmp` nor the end of its thread may take it away. An exception that leaves it ends the
 * program. `me` is valid until it returns.
 */
typedef int (*syncline_team_function)(syncline_member *me, void *argument);

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
 * Like `syncline_barrier_wait`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_TIMED_OUT` then: the
 * member has arrived, stays so, and may wait again.
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
 * Like `syncline_acquire`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_NOT_GRANTED` then.
 *
 * # Safety
 * `handle` is one that was not freed.
 */
syncline_status syncline_acquire_within(syncline_handle *handle,
                                        uint64_t nanoseconds);

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
 * What was done under the lock before is seen. It is `SYNCLINE_STATUS_GONE` if it would have to wait and a member is
 * dead, and `SYNCLINE_STATUS_POISONED` if one died that held it, or returned from its team with it: then
 * `syncline_lock_recover` goes on.
 *
 * # Safety
 * `lock` was not freed.
 */
syncline_status syncline_lock_acquire(syncline_lock *lock,
                                      size_t rank);

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
syncline_status syncline_lock_try(syncline_lock *lock,
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
void syncline_report_free(syncline_report *report);

/**
 * Reads a signal. What was done before it was raised to that number is seen after this call.
 *
 * # Safety
 * `signal` points to a signal. `*number` can be written.
 */
syncline_status syncline_signal_get(const syncline_signal *signal, uint64_t *number);

/**
 * Raises a signal to a number, if it is lower, and wakes those who wait for that.
 *
 * # Safety
 * `signal` points to a signal.
 */
syncline_status syncline_signal_raise_to(syncline_signal *signal, uint64_t number);

/**
 * Adds to a signal, and wakes those who wait. `*now`, unless `now` is `NULL`, is the sum; it must not be more than a
 * signal can hold.
 *
 * # Safety
 * `signal` points to a signal. `*now` can be written, or `now` is `NULL`.
 */
syncline_status syncline_signal_add(syncline_signal *signal,
                                    uint64_t n,
                                    uint64_t *now);

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
 * Runs a function in every member of a team, and returns when those of this process have returned.
 *
 * `shape` says who takes part. `NULL`: the environment says it, that is the processes that `syncline launch` started, or
 * else threads of this process, as many as `SYNCLINE_THREADS` says or as it has cores. Without `processes`: threads of
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
 * Waits until all members have come here, each as often as the others. One that is dead, or has returned, is
 * `SYNCLINE_STATUS_GONE`, with its rank in the message; so is the end of the launcher.
 *
 * # Safety
 * `me` is `NULL`, or its function has not returned.
 */
syncline_status syncline_member_wait(syncline_member *me);

/**
 * Waits until a signal is at least `number`, for `nanoseconds` at most (`UINT64_MAX`: for ever), and ends with
 * `SYNCLINE_STATUS_GONE` as soon as any member of the team is dead, with its rank in the message.
 *
 * # Safety
 * `me` is `NULL`, or its function has not returned. `signal` points to a signal, which stays where it is until this call
 * returns.
 */
syncline_status syncline_member_await(syncline_member *me,
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
 * nothing to others. `*memory` is valid until the function returns.
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
void syncline_text_free(char *text);

/**
 * Shows the first requests of a checked overlay, as every run queues them.
 *
 * `drawing` is one of `syncline_drawing`. `*text` is to be given back by `syncline_text_free`.
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
 * `*text` is `NULL` if the overlay does not run; else it is to be given back by `syncline_text_free`.
 *
 * # Safety
 * `watch` was not freed. `*text` can be written.
 */
syncline_status syncline_watch_draw(const syncline_watch *watch,
                                    uint32_t drawing,
                                    char **text);

/**
 * Waits until no task of the run has ended an iteration for `patience` nanoseconds, and reports who waits for whom, and
 * since when.
 *
 * `*text` is `NULL` if the run has ended before (told once for each run), or if none is under way and none begins for
 * as long, or, at once, if the overlay was freed; else it is to be given back by `syncline_text_free`. With
 * `SYNCLINE_DRAWING_WORDS` it is the whole report, with another drawing the queues of that moment. If `end_run` is true
 * the run then fails with `SYNCLINE_STATUS_STUCK` and the report as its message, as soon as the bodies under way have
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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SYNCLINE_H */
