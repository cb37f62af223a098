! An MPI program without Syncline, in Fortran.
program foreign
    implicit none
    include 'mpif.h'
    integer :: failed, round, rank, total
    call mpi_init(failed)
    call mpi_comm_rank(mpi_comm_world, rank, failed)
    do round = 1, 50
        call mpi_barrier(mpi_comm_world, failed)
        call mpi_allreduce(round, total, 1, mpi_integer, mpi_max, mpi_comm_world, failed)
        if (total /= round) stop 1
    end do
    call mpi_finalize(failed)
end program
