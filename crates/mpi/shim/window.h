/* One-sided memory: a part of the shim. A window is locked for all from its allocation until it is
 * freed. */

API int syncline_mpi_win_allocate(int handle, int64_t bytes, void **base, int *window) {
    MPI_Comm comm;
    MPI_Win win;
    int index = 0, result;
    CHECK(comm_of(handle, &comm));
    while (index < WINDOWS && windows[index].used) index++;
    if (index == WINDOWS) return TOO_MANY;
    TRY(MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, comm, base, &win));
    result = code(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    if (result == OK) result = code(MPI_Win_lock_all(0, win));
    if (result != OK) {
        (void)MPI_Win_free(&win);
        return result;
    }
    windows[index].win = win;
    windows[index].used = 1;
    *window = index;
    return OK;
}

API int syncline_mpi_win_free(int window) {
    MPI_Win win;
    CHECK(window_of(window, &win));
    windows[window].used = 0;
    TRY(MPI_Win_unlock_all(win));
    TRY(MPI_Win_free(&win));
    return OK;
}

API int syncline_mpi_put(int window, int to, int64_t at, const void *bytes, int64_t count) {
    MPI_Win win;
    CHECK(window_of(window, &win));
    CHECK(length(count));
    TRY(MPI_Put(bytes, (int)count, MPI_BYTE, to, (MPI_Aint)at, (int)count, MPI_BYTE, win));
    return OK;
}

API int syncline_mpi_get(int window, int from, int64_t at, void *bytes, int64_t count) {
    MPI_Win win;
    CHECK(window_of(window, &win));
    CHECK(length(count));
    TRY(MPI_Get(bytes, (int)count, MPI_BYTE, from, (MPI_Aint)at, (int)count, MPI_BYTE, win));
    return OK;
}

API int syncline_mpi_accumulate(int window, int to, int64_t at, const double *values, int64_t count) {
    MPI_Win win;
    CHECK(window_of(window, &win));
    CHECK(length(count));
    TRY(MPI_Accumulate(values, (int)count, MPI_DOUBLE, to, (MPI_Aint)at, (int)count, MPI_DOUBLE, MPI_SUM, win));
    return OK;
}

/* The operation is complete when the call returns. */
API int syncline_mpi_fetch_add(int window, int to, int64_t at, int64_t add, int64_t *before) {
    MPI_Win win;
    CHECK(window_of(window, &win));
    TRY(MPI_Fetch_and_op(&add, before, MPI_INT64_T, to, (MPI_Aint)at, MPI_SUM, win));
    TRY(MPI_Win_flush(to, win));
    return OK;
}

API int syncline_mpi_flush(int window, int rank) {
    MPI_Win win;
    CHECK(window_of(window, &win));
    TRY(MPI_Win_flush(rank, win));
    return OK;
}

API int syncline_mpi_flush_all(int window) {
    MPI_Win win;
    CHECK(window_of(window, &win));
    TRY(MPI_Win_flush_all(win));
    return OK;
}

/* Makes the writes of other processes visible to later loads. */
API int syncline_mpi_win_sync(int window) {
    MPI_Win win;
    CHECK(window_of(window, &win));
    TRY(MPI_Win_sync(win));
    return OK;
}
