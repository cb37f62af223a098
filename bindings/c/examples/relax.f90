! OpenMP threads that relax a metal bar together: a barrier of Syncline between the steps, a signal
! by which the first thread waits for all at the end, and a lock around a sum.
!
!     gfortran -fopenmp syncline.f90 relax.f90 -lsyncline_c
program relax
    use, intrinsic :: iso_c_binding
    use omp_lib
    use syncline
    implicit none

    integer, parameter :: threads = 3, points = 300, steps = 400
    real(c_double) :: bar(0:points + 1, 0:1), alone(0:points + 1, 0:1)
    type(syncline_signal), target :: finished
    type(c_ptr) :: barrier, lock
    integer(c_int64_t) :: total
    integer :: updated = 0, step, rank, first, last

    bar = 0
    bar(0, :) = 100
    alone = bar
    do step = 1, steps
        call update(alone, step, 1, points)
    end do

    call check(syncline_barrier_new(SYNCLINE_BARRIER_KIND_AUTO, int(threads, c_size_t), 0_c_size_t, barrier))
    call check(syncline_lock_new(SYNCLINE_LOCK_KIND_MCS, int(threads, c_size_t), lock))
    call omp_set_dynamic(.false.)
    !$omp parallel num_threads(threads) private(rank, first, last, step, total)
    rank = omp_get_thread_num()
    first = rank * points / threads + 1
    last = (rank + 1) * points / threads
    do step = 1, steps
        call update(bar, step, first, last)
        call check(syncline_barrier_wait(barrier, int(rank, c_size_t)))
    end do
    call check(syncline_lock_acquire(lock, int(rank, c_size_t)))
    updated = updated + last - first + 1
    call check(syncline_lock_release(lock, int(rank, c_size_t)))
    call check(syncline_signal_add(finished, 1_c_int64_t, total))
    if (rank == 0) call check(syncline_signal_wait(finished, int(threads, c_int64_t)))
    !$omp end parallel

    if (updated /= points) print '(a, i0)', 'points updated: ', updated
    if (all(transfer(bar, [0_c_int64_t]) == transfer(alone, [0_c_int64_t]))) then
        print '(a)', 'the bits of the loop'
    else
        print '(a)', 'other bits: wrong'
    end if
    if (syncline_barrier_wait(barrier, 7_c_size_t) == SYNCLINE_STATUS_INVALID_ARGUMENT) print '(a)', syncline_message()
    if (syncline_signal_wait_for(finished, 4_c_int64_t, 1000_c_int64_t) == SYNCLINE_STATUS_TIMED_OUT) then
        print '(a)', syncline_message()
    end if
    call check(syncline_barrier_free(barrier))
    call check(syncline_lock_free(lock))

contains

    ! Updates a range of points in one step, from one half of the array into the other.
    subroutine update(x, step, first, last)
        real(c_double), intent(inout) :: x(0:, 0:)
        integer, intent(in) :: step, first, last
        integer :: i, from

        from = mod(step + 1, 2)
        do i = first, last
            x(i, 1 - from) = x(i, from) + (x(i - 1, from) - 2 * x(i, from) + x(i + 1, from)) / 4
        end do
    end subroutine

    subroutine check(status)
        integer(c_int), intent(in) :: status

        if (status /= SYNCLINE_STATUS_OK) then
            print '(a)', syncline_message()
            error stop 1
        end if
    end subroutine
end program
