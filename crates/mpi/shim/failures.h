/* Failures of processes: a part of the shim. If the MPI has no calls for them, every function
 * returns NOT_THERE. */

#if ULFM

API int syncline_mpi_comm_revoke(int handle) {
    MPI_Comm comm;
    CHECK(comm_of(handle, &comm));
    TRY(MPIX_Comm_revoke(comm));
    return OK;
}

API int syncline_mpi_comm_shrink(int from, int *handle) {
    MPI_Comm comm, left;
    CHECK(comm_of(from, &comm));
    TRY(MPIX_Comm_shrink(comm, &left));
    return keep(left, handle);
}

API int syncline_mpi_comm_agree(int handle, int *flags) {
    MPI_Comm comm;
    CHECK(comm_of(handle, &comm));
    TRY(MPIX_Comm_agree(comm, flags));
    return OK;
}

/* Acknowledges the failures that are known here and returns their ranks: *count of them, at most
 * `room`. */
API int syncline_mpi_comm_failures(int handle, int *ranks, int room, int *count) {
    MPI_Comm comm;
    MPI_Group failed, all;
    int size = 0, one, result;
    *count = 0;
    CHECK(comm_of(handle, &comm));
    TRY(MPIX_Comm_failure_ack(comm));
    TRY(MPIX_Comm_failure_get_acked(comm, &failed));
    result = code(MPI_Comm_group(comm, &all));
    if (result == OK) {
        result = code(MPI_Group_size(failed, &size));
        for (int i = 0; result == OK && i < size && i < room; i++) {
            result = code(MPI_Group_translate_ranks(failed, 1, &i, all, &one));
            ranks[i] = one;
        }
        (void)MPI_Group_free(&all);
    }
    if (size > 0) (void)MPI_Group_free(&failed);
    *count = size < room ? size : room;
    return result;
}

#else

API int syncline_mpi_comm_revoke(int handle) {
    (void)handle;
    return NOT_THERE;
}

API int syncline_mpi_comm_shrink(int from, int *handle) {
    (void)from, (void)handle;
    return NOT_THERE;
}

API int syncline_mpi_comm_agree(int handle, int *flags) {
    (void)handle, (void)flags;
    return NOT_THERE;
}

API int syncline_mpi_comm_failures(int handle, int *ranks, int room, int *count) {
    (void)handle, (void)ranks, (void)room;
    *count = 0;
    return NOT_THERE;
}

#endif
