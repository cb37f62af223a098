/* The calls of MPI that Syncline makes, in a form that does not depend on the MPI.
 *
 * The site's own mpicc compiles this file into a shared library, which is loaded at run time. MPIs
 * differ in what a handle is and in the values of constants, so handles stay in this file, and
 * callers get small integers.
 *
 *   threads   0 single, 1 funneled, 2 serialized, 3 multiple
 *   results   one of the codes below, from every function that can fail
 *   lengths   bytes; at most INT_MAX for one message
 *   requests  a slot of a table, from isend, irecv or imrecv, until test or wait reports it done or
 *             fails
 *   messages  a slot of the same table, from improbe to imrecv, which turns it into a request
 *
 * The tables are plain memory: the caller must ensure that at most one thread at a time is in this
 * file.
 */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

/* A call that this MPI lacks is an error of the compiler, not of the loader. */
#pragma GCC diagnostic error "-Wimplicit-function-declaration"

/* Increment this with any change of the functions' parameters or results. */
#define ABI 1

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

#if defined(OMPI_MAJOR_VERSION)
#define FAMILY "openmpi"
#define VERSION TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION)
#elif defined(I_MPI_VERSION)
#define FAMILY "intel"
#define VERSION I_MPI_VERSION
#elif defined(MPI_ABI_VERSION) && !defined(MPICH_VERSION)
#define FAMILY "abi"
#define VERSION TEXT(MPI_ABI_VERSION) "." TEXT(MPI_ABI_SUBVERSION)
#elif defined(MVAPICH2_VERSION) || defined(MVAPICH_VERSION)
#define FAMILY "other"
#define VERSION TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#elif defined(MPICH_VERSION)
#define FAMILY "mpich"
#define VERSION MPICH_VERSION
#else
#define FAMILY "other"
#define VERSION TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#endif

/* Failures of processes: Open MPI 5 and MPICH. SYNCLINE_NO_ULFM leaves the calls out if they do not
 * compile. */
#if defined(MPIX_ERR_PROC_FAILED) && !defined(SYNCLINE_NO_ULFM)
#define ULFM 1
#else
#define ULFM 0
#endif

/* The string by which the file is identified before it is loaded. */
static const char about[] = "syncline-mpi-shim abi=" TEXT(ABI) " family=" FAMILY " version=" VERSION
                            " mpi=" TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION) " ulfm=" TEXT(ULFM) " end";

enum { OK, PROC_FAILED, REVOKED, TRUNCATED, NO_MEMORY, OTHER, NO_SUCH, TOO_MANY, TOO_LONG, NOT_THERE, INTER };

#define API __attribute__((visibility("default")))
enum { COMMUNICATORS = 256, WINDOWS = 64 };

static MPI_Comm comms[COMMUNICATORS];
static char comm_used[COMMUNICATORS];

static struct window {
    int used;
    MPI_Win win;
} windows[WINDOWS];

static struct slot {
    enum { FREE, SENDING, RECEIVING, MESSAGE } kind;
    MPI_Request request;
#ifndef SYNCLINE_NO_MPROBE
    MPI_Message message;
#else
    MPI_Comm comm;
    int source, tag;
#endif
    int next; /* the next free slot */
} *slots;
static int slot_count, slot_free = -1;

static int last; /* the last error code of MPI */

static int code(int mpi) {
    int class = MPI_ERR_OTHER;
    if (mpi == MPI_SUCCESS) return OK;
    last = mpi;
    if (MPI_Error_class(mpi, &class) != MPI_SUCCESS) return OTHER;
    if (class == MPI_ERR_TRUNCATE) return TRUNCATED;
    if (class == MPI_ERR_NO_MEM) return NO_MEMORY;
#if ULFM
    if (class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING) return PROC_FAILED;
    if (class == MPIX_ERR_REVOKED) return REVOKED;
#endif
    return OTHER;
}

/* Returns from the function if a call failed. */
#define TRY(call)                          \
    do {                                   \
        int result_ = code(call);          \
        if (result_ != OK) return result_; \
    } while (0)
#define CHECK(call)                        \
    do {                                   \
        int result_ = (call);              \
        if (result_ != OK) return result_; \
    } while (0)

static void copy(char *into, int room, const char *text) {
    if (room > 0) snprintf(into, (size_t)room, "%s", text);
}

static int comm_of(int handle, MPI_Comm *comm) {
    if (handle < 0 || handle >= COMMUNICATORS || !comm_used[handle]) return NO_SUCH;
    *comm = comms[handle];
    return OK;
}

/* Gives a number to a new communicator, whose errors are returned from here on. */
static int keep(MPI_Comm comm, int *handle) {
    for (int i = 0; i < COMMUNICATORS; i++) {
        if (comm_used[i]) continue;
        TRY(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        comms[i] = comm;
        comm_used[i] = 1;
        *handle = i;
        return OK;
    }
    (void)MPI_Comm_free(&comm);
    return TOO_MANY;
}

static int window_of(int handle, MPI_Win *win) {
    if (handle < 0 || handle >= WINDOWS || !windows[handle].used) return NO_SUCH;
    *win = windows[handle].win;
    return OK;
}

static int new_slot(int *index) {
    if (slot_free < 0) {
        int more = slot_count ? slot_count * 2 : 64;
        struct slot *grown = more > slot_count ? realloc(slots, (size_t)more * sizeof *slots) : NULL;
        if (!grown) return NO_MEMORY;
        slots = grown;
        for (int i = more - 1; i >= slot_count; i--) {
            slots[i].kind = FREE;
            slots[i].next = slot_free;
            slot_free = i;
        }
        slot_count = more;
    }
    *index = slot_free;
    slot_free = slots[*index].next;
    return OK;
}

static void give_back(int index) {
    slots[index].kind = FREE;
    slots[index].next = slot_free;
    slot_free = index;
}

static int message_of(int index) {
    return index >= 0 && index < slot_count && slots[index].kind == MESSAGE ? OK : NO_SUCH;
}

static int request_of(int index) {
    if (index < 0 || index >= slot_count) return NO_SUCH;
    return slots[index].kind == SENDING || slots[index].kind == RECEIVING ? OK : NO_SUCH;
}

static int length(int64_t bytes) { return bytes < 0 || bytes > INT_MAX ? TOO_LONG : OK; }

/* Releases a finished request and reads its result. MPI reports no byte count for a send. */
static int finish(int index, MPI_Status *status, int64_t *received, int *cancelled) {
    int count = 0, flag = 0, result, receives = slots[index].kind == RECEIVING;
    give_back(index);
    result = code(MPI_Test_cancelled(status, &flag));
    if (result == OK && !flag && receives) result = code(MPI_Get_count(status, MPI_BYTE, &count));
    *cancelled = flag;
    *received = count > 0 ? count : 0;
    return result;
}

/* The shim, the library and its state. */

API int syncline_mpi_abi(void) { return ABI; }
API const char *syncline_mpi_about(void) { return about; }
API int syncline_mpi_has_ulfm(void) { return ULFM; }

API int syncline_mpi_library_version(char *into, int room) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int count = 0;
    TRY(MPI_Get_library_version(text, &count));
    copy(into, room, text);
    return OK;
}

API int syncline_mpi_error_string(char *into, int room) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int count = 0;
    if (MPI_Error_string(last, text, &count) != MPI_SUCCESS) snprintf(text, sizeof text, "error %d", last);
    copy(into, room, text);
    return OK;
}

API int syncline_mpi_initialized(int *flag) {
    TRY(MPI_Initialized(flag));
    return OK;
}

API int syncline_mpi_finalized(int *flag) {
    TRY(MPI_Finalized(flag));
    return OK;
}

static int threads_of(int mpi) {
    if (mpi == MPI_THREAD_MULTIPLE) return 3;
    if (mpi == MPI_THREAD_SERIALIZED) return 2;
    return mpi == MPI_THREAD_FUNNELED ? 1 : 0;
}

API int syncline_mpi_init_thread(int required, int *granted) {
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int provided = MPI_THREAD_SINGLE;
    if (required < 0 || required > 3) return NO_SUCH;
    TRY(MPI_Init_thread(NULL, NULL, levels[required], &provided));
    *granted = threads_of(provided);
    /* Errors that do not belong to one of the shim's communicators are returned as well. */
    TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    TRY(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    return OK;
}

API int syncline_mpi_query_thread(int *granted) {
    int provided = MPI_THREAD_SINGLE;
    TRY(MPI_Query_thread(&provided));
    *granted = threads_of(provided);
    return OK;
}

API int syncline_mpi_is_thread_main(int *flag) {
    TRY(MPI_Is_thread_main(flag));
    return OK;
}

API int syncline_mpi_finalize(void) {
    TRY(MPI_Finalize());
    return OK;
}

API int syncline_mpi_abort(int status) {
    TRY(MPI_Abort(MPI_COMM_WORLD, status));
    return OK;
}

API int syncline_mpi_processor_name(char *into, int room) {
    char text[MPI_MAX_PROCESSOR_NAME] = "";
    int count = 0;
    TRY(MPI_Get_processor_name(text, &count));
    copy(into, room, text);
    return OK;
}

API double syncline_mpi_wtime(void) { return MPI_Wtime(); }

/* Communicators. All are duplicates, so their messages never match those of the caller's own
 * program. */

API int syncline_mpi_comm_world(int *handle) {
    MPI_Comm comm;
    TRY(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    return keep(comm, handle);
}

API int syncline_mpi_comm_from_fortran(int fortran, int *handle) {
#ifdef MPI_ABI
    MPI_Comm comm = MPI_Comm_fromint(fortran), own;
#else
    MPI_Comm comm = MPI_Comm_f2c((MPI_Fint)fortran), own;
#endif
    int inter = 0;
    if (comm == MPI_COMM_NULL) return NO_SUCH;
    TRY(MPI_Comm_test_inter(comm, &inter));
    if (inter) return INTER;
    TRY(MPI_Comm_dup(comm, &own));
    return keep(own, handle);
}

/* A process with a negative color is in no part; its handle is -1. */
API int syncline_mpi_comm_split(int from, int color, int key, int *handle) {
    MPI_Comm comm, part;
    CHECK(comm_of(from, &comm));
    TRY(MPI_Comm_split(comm, color < 0 ? MPI_UNDEFINED : color, key, &part));
    *handle = -1;
    return part == MPI_COMM_NULL ? OK : keep(part, handle);
}

API int syncline_mpi_comm_free(int handle) {
    MPI_Comm comm;
    CHECK(comm_of(handle, &comm));
    comm_used[handle] = 0;
    TRY(MPI_Comm_free(&comm));
    return OK;
}

API int syncline_mpi_rank(int handle, int *rank) {
    MPI_Comm comm;
    CHECK(comm_of(handle, &comm));
    TRY(MPI_Comm_rank(comm, rank));
    return OK;
}

API int syncline_mpi_size(int handle, int *size) {
    MPI_Comm comm;
    CHECK(comm_of(handle, &comm));
    TRY(MPI_Comm_size(comm, size));
    return OK;
}

API int syncline_mpi_barrier(int handle) {
    MPI_Comm comm;
    CHECK(comm_of(handle, &comm));
    TRY(MPI_Barrier(comm));
    return OK;
}

API int syncline_mpi_bcast(int handle, void *bytes, int64_t count, int root) {
    MPI_Comm comm;
    CHECK(comm_of(handle, &comm));
    CHECK(length(count));
    TRY(MPI_Bcast(bytes, (int)count, MPI_BYTE, root, comm));
    return OK;
}

API int syncline_mpi_allgather(int handle, const void *mine, int64_t count, void *all) {
    MPI_Comm comm;
    CHECK(comm_of(handle, &comm));
    CHECK(length(count));
    TRY(MPI_Allgather(mine, (int)count, MPI_BYTE, all, (int)count, MPI_BYTE, comm));
    return OK;
}

API int syncline_mpi_allreduce_max(int handle, double mine, double *most) {
    MPI_Comm comm;
    CHECK(comm_of(handle, &comm));
    TRY(MPI_Allreduce(&mine, most, 1, MPI_DOUBLE, MPI_MAX, comm));
    return OK;
}

/* Messages. */

API int syncline_mpi_isend(int handle, const void *bytes, int64_t count, int to, int tag, int *request) {
    MPI_Comm comm;
    int index, result;
    CHECK(comm_of(handle, &comm));
    CHECK(length(count));
    CHECK(new_slot(&index));
    result = code(MPI_Isend(bytes, (int)count, MPI_BYTE, to, tag, comm, &slots[index].request));
    if (result != OK) {
        give_back(index);
        return result;
    }
    slots[index].kind = SENDING;
    *request = index;
    return OK;
}

API int syncline_mpi_irecv(int handle, void *bytes, int64_t count, int from, int tag, int *request) {
    MPI_Comm comm;
    int index, result;
    CHECK(comm_of(handle, &comm));
    CHECK(length(count));
    CHECK(new_slot(&index));
    result = code(MPI_Irecv(bytes, (int)count, MPI_BYTE, from, tag, comm, &slots[index].request));
    if (result != OK) {
        give_back(index);
        return result;
    }
    slots[index].kind = RECEIVING;
    *request = index;
    return OK;
}

/* Takes a message from any process out of the queue; only imrecv receives it from then on. */
API int syncline_mpi_improbe(int handle, int tag, int *found, int *source, int64_t *bytes, int *message) {
    MPI_Comm comm;
    MPI_Status status;
    int index, result, count = 0;
    *found = 0;
    CHECK(comm_of(handle, &comm));
    CHECK(new_slot(&index));
#ifndef SYNCLINE_NO_MPROBE
    result = code(MPI_Improbe(MPI_ANY_SOURCE, tag, comm, found, &slots[index].message, &status));
#else
    /* One thread at a time is in here, and the caller receives before it probes again, so no other
     * call takes the message. */
    result = code(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, found, &status));
#endif
    if (result != OK || !*found) {
        *found = 0;
        give_back(index);
        return result;
    }
    *message = index;
    slots[index].kind = MESSAGE;
#ifdef SYNCLINE_NO_MPROBE
    slots[index].comm = comm;
    slots[index].source = status.MPI_SOURCE;
    slots[index].tag = status.MPI_TAG;
#endif
    *source = status.MPI_SOURCE;
    TRY(MPI_Get_count(&status, MPI_BYTE, &count));
    *bytes = count;
    return OK;
}

API int syncline_mpi_imrecv(int message, void *bytes, int64_t count) {
    int result;
    CHECK(message_of(message));
    CHECK(length(count));
#ifndef SYNCLINE_NO_MPROBE
    result = code(MPI_Imrecv(bytes, (int)count, MPI_BYTE, &slots[message].message, &slots[message].request));
#else
    result = code(MPI_Irecv(bytes, (int)count, MPI_BYTE, slots[message].source, slots[message].tag,
                            slots[message].comm, &slots[message].request));
#endif
    if (result != OK) {
        give_back(message);
        return result;
    }
    slots[message].kind = RECEIVING;
    return OK;
}

API int syncline_mpi_test(int request, int *done, int64_t *received, int *cancelled) {
    MPI_Status status;
    int result;
    *done = 0;
    CHECK(request_of(request));
    result = code(MPI_Test(&slots[request].request, done, &status));
    if (result != OK) {
        give_back(request);
        return result;
    }
    return *done ? finish(request, &status, received, cancelled) : OK;
}

API int syncline_mpi_wait(int request, int64_t *received, int *cancelled) {
    MPI_Status status;
    int result;
    CHECK(request_of(request));
    result = code(MPI_Wait(&slots[request].request, &status));
    if (result != OK) {
        give_back(request);
        return result;
    }
    return finish(request, &status, received, cancelled);
}

/* Requests the cancellation; test or wait reports whether it took place. */
API int syncline_mpi_cancel(int request) {
    CHECK(request_of(request));
    TRY(MPI_Cancel(&slots[request].request));
    return OK;
}

#include "window.h"
#include "failures.h"
