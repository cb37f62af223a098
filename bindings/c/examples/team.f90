! One function run by all members of a team: threads, or processes that `syncline launch -n 3 --
! PROGRAM` starts. They add numbers under a lock, in shared memory, and one of them prints the sum
! after a barrier.
!
!     gfortran syncline.f90 team.f90 -lsyncline_c
module work
    use, intrinsic :: iso_c_binding
    use syncline
    implicit none

contains

    ! A function for C: its arguments are a member and the pointer that was passed to the run.
    function member(me, argument) bind(C) result(code)
        type(c_ptr), value :: me, argument
        integer(c_int) :: code
        type(c_ptr) :: lock, memory
        integer(c_int64_t), pointer :: most, sum
        integer(c_int64_t) :: n
        integer(c_size_t) :: rank

        rank = syncline_member_rank(me)
        call c_f_pointer(argument, most)
        call check(syncline_member_lock(me, SYNCLINE_LOCK_KIND_TICKET, lock))
        call check(syncline_member_memory(me, c_sizeof(n), memory))
        call c_f_pointer(memory, sum)
        do n = 1 + rank, most, syncline_member_size(me)
            call check(syncline_lock_acquire(lock, rank))
            sum = sum + n
            call check(syncline_lock_release(lock, rank))
        end do
        call check(syncline_member_wait(me))
        if (rank == 0) print '(a, i0)', 'sum: ', sum
        code = merge(0, 1, sum == most * (most + 1) / 2)
    end function

    subroutine check(status)
        integer(c_int), intent(in) :: status
        if (status == SYNCLINE_STATUS_OK) return
        print '(a)', syncline_message()
        stop 1
    end subroutine
end module

program team
    use work
    implicit none

    integer(c_int64_t), target :: most = 1000
    type(syncline_shape), target :: three = syncline_shape(threads=3), none = syncline_shape(threads=5000)
    integer(c_int) :: status

    ! The environment defines the team; then, if no launcher started this process, the program does.
    call check(syncline_team_run(c_null_ptr, c_funloc(member), c_loc(most)))
    call check(syncline_team_run(c_loc(three), c_funloc(member), c_loc(most)))
    status = syncline_team_run(c_loc(none), c_funloc(member), c_loc(most))
    if (status == SYNCLINE_STATUS_INVALID_ARGUMENT) print '(a)', syncline_message()
end program
