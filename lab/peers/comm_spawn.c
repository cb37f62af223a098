/* Measures MPI_Comm_spawn of one worker until its first message arrives: comm_spawn N
 *
 *   mpicc -O2 -o comm_spawn comm_spawn.c
 *   mpirun -n 1 comm_spawn 20        Open MPI: with --oversubscribe if there is only one processor
 *
 * MPICH over UCX, including Debian's 4.0.2, has no dynamic processes before 4.3
 * (https://github.com/pmodels/mpich/pull/5467): there spawn returns an error. The 5.0.2 of
 * `make mpi-wheels` has them.
 *
 * Prints a line of JSON: `seconds` is the time from the call of MPI_Comm_spawn to the message, for
 * each of N times; `spawned` the time to the return of MPI_Comm_spawn. The worker is this same
 * program, which recognises its role by MPI_Comm_get_parent. Between two times both disconnect, and
 * the worker ends by itself; no call waits for that end, so the next spawn may overlap it.
 */
#define _GNU_SOURCE
#include "peer.h"

#include <limits.h>
#include <mpi.h>

#define WORD 0x5EED
#define LONGEST 120 /* seconds, before this gives up, so that a library that hangs is noticed */
#define MOST 100000

static void check(int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "error: %s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int n)
{
    double *sorted = (double *)room((size_t)n, sizeof *sorted);
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    const double m = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    free(sorted);
    return m;
}

static void print(const char *name, const double *values, int n)
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < n; i++)
        printf("%s%.9f", i ? ", " : "", values[i]);
    printf("], \"median_%s\": %.9f", name, median(values, n));
}

static void work(MPI_Comm parent)
{
    int word = WORD;
    check(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN), "take errors");
    check(MPI_Send(&word, 1, MPI_INT, 0, 0, parent), "send the first message");
    check(MPI_Comm_disconnect(&parent), "disconnect from the parent");
}

static void manage(char *program, int n)
{
    double *seconds = (double *)room((size_t)n, sizeof *seconds), *spawned = (double *)room((size_t)n, sizeof *spawned);
    for (int i = 0; i < n; i++) {
        MPI_Comm worker;
        int code = MPI_SUCCESS, word = 0;
        const double start = now();
        check(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &worker, &code), "spawn");
        check(code, "spawn the worker");
        spawned[i] = now() - start;
        check(MPI_Recv(&word, 1, MPI_INT, 0, 0, worker, MPI_STATUS_IGNORE), "receive the first message");
        seconds[i] = now() - start;
        if (word != WORD)
            check(MPI_ERR_OTHER, "the message received is not the one sent");
        check(MPI_Comm_disconnect(&worker), "disconnect from the worker");
    }
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    check(MPI_Get_library_version(library, &length), "ask for the version");
    /* Its first line has its name and number; the rest says how it was built. */
    library[strcspn(library, ",\n\"\\")] = '\0';
    char *end = library;
    for (const char *c = library; *c; c++) {
        const char letter = *c == '\t' ? ' ' : *c;
        if (letter != ' ' || (end > library && end[-1] != ' '))
            *end++ = letter;
    }
    *end = '\0';
    printf("{\"what\": \"comm_spawn %d\", \"library\": \"%s\"", n, library);
    print("seconds", seconds, n);
    print("spawned", spawned, n);
    printf("}\n");
    fflush(stdout);
    free(seconds);
    free(spawned);
}

int main(int argc, char **argv)
{
    alarm(LONGEST);
    check(MPI_Init(&argc, &argv), "begin");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "take errors");
    check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "take errors");
    MPI_Comm parent;
    check(MPI_Comm_get_parent(&parent), "ask for the parent");
    if (parent != MPI_COMM_NULL) {
        work(parent);
    } else {
        char *rest = NULL, program[PATH_MAX];
        const long n = argc == 2 ? strtol(argv[1], &rest, 10) : 0;
        if (n < 1 || n > MOST || *rest) {
            fprintf(stderr, "usage: comm_spawn N\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
            return 2;
        }
        const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        if (length < 0)
            fail("this program cannot be found");
        program[length] = '\0';
        manage(program, (int)n);
    }
    return MPI_Finalize() != MPI_SUCCESS;
}
