/* ulfm: checks whether an MPI continues after the death of a rank (User Level Failure Mitigation;
 * Open MPI 5: --with-ft ulfm).
 *
 *     ulfm            at least 3 ranks; the last one kills itself
 *
 * The others receive from it, get MPIX_ERR_PROC_FAILED, revoke the communicator, shrink it, and add
 * numbers in the new one. Rank 0 prints the times. The survivors exit with 0 if all of that has
 * happened. */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int rank, size, class = 0, left = 0, sum = 0, one = 1, value;
	MPI_Comm comm, smaller;
	MPI_Init(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	MPI_Barrier(comm);
	if (rank == size - 1) {
		raise(SIGKILL);
		pause();
	}
	double start = MPI_Wtime();
	int status = MPI_Recv(&value, 1, MPI_INT, size - 1, 0, comm, MPI_STATUS_IGNORE);
	double told = MPI_Wtime();
	MPI_Error_class(status, &class);
	/* The first rank with the error revokes the communicator; the others may then get MPIX_ERR_REVOKED
	 * instead. */
	int good = class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED;
	MPIX_Comm_revoke(comm);
	good = good && MPIX_Comm_shrink(comm, &smaller) == MPI_SUCCESS;
	double shrunk = MPI_Wtime();
	if (good) {
		MPI_Comm_size(smaller, &left);
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, smaller);
		good = left == size - 1 && sum == left;
	}
	if (rank == 0) {
		printf("%s: told (%s) after %.1f ms, shrunk to %d of %d after %.1f ms more\n", good ? "ok" : "wrong",
		       class == MPIX_ERR_PROC_FAILED ? "failed" : class == MPIX_ERR_REVOKED ? "revoked" : "something else",
		       (told - start) * 1e3, left, size, (shrunk - told) * 1e3);
		fflush(stdout);
	}
	/* MPI_Finalize of Open MPI 5.0.11 would wait forever for the dead rank. The barrier keeps
	 * survivors from exiting before the others are done, which would look like a death. */
	if (good) MPI_Barrier(smaller);
	_exit(!good);
}
