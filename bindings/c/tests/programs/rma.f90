! One-sided memory in Fortran: each member writes a row to the next member, adds to a sum at rank 0,
! and draws numbers there.
module work
    use, intrinsic :: iso_c_binding
    use syncline
    implicit none

    integer, parameter :: n = 10

contains

    function member(me, argument) bind(C) result(code)
        type(c_ptr), value :: me, argument
        integer(c_int) :: code
        type(c_ptr) :: rma, row, sums
        type(syncline_rma_handle), target :: handle
        type(syncline_rma_segment) :: list(2)
        real(c_double), target :: mine(n), found(n), one, total
        integer(c_size_t) :: rank, next, members
        integer(c_int64_t) :: before
        integer :: k

        code = merge(1, 0, c_associated(argument))
        rank = syncline_member_rank(me)
        members = syncline_member_size(me)
        next = mod(rank + 1, members)
        mine = [(real(rank * n + k, c_double), k = 1, n)]
        one = 1
        call check(syncline_member_rma(me, rma))
        if (syncline_rma_allocate(rma, huge(0_c_size_t), row) /= SYNCLINE_STATUS_NO_ROOM) code = 4
        call check(syncline_rma_allocate(rma, c_sizeof(mine), row))
        call check(syncline_rma_allocate(rma, 2 * c_sizeof(one), sums))
        ! Every other number by a section, then the rest by a list.
        call check(syncline_rma_put_strided(rma, row, next, 0_c_size_t, [16_c_size_t], c_loc(mine), [16_c_size_t], &
            [8_c_size_t, 5_c_size_t], 1_c_size_t))
        do k = 2, n, 2
            list(1) = syncline_rma_segment(8_c_size_t * (k - 1), c_loc(mine(k)), 8_c_size_t)
            call check(syncline_rma_put_list(rma, row, next, list, 1_c_size_t))
        end do
        do k = 1, n
            call check(syncline_rma_accumulate(rma, sums, 0_c_size_t, 0_c_size_t, SYNCLINE_RMA_NUMBER_F64, c_loc(one), &
                c_loc(mine(k)), 8_c_size_t))
        end do
        call check(syncline_rma_fetch_add_i64(rma, sums, 0_c_size_t, 8_c_size_t, 1_c_int64_t, before))
        call check(syncline_rma_sync(rma))
        call check(syncline_rma_start_get(rma, row, rank, 0_c_size_t, c_loc(found), c_sizeof(found), c_loc(handle)))
        call check(syncline_rma_wait(rma, c_loc(handle)))
        call check(syncline_rma_get(rma, sums, 0_c_size_t, 0_c_size_t, c_loc(total), 8_c_size_t))
        mine = [(real(mod(rank + members - 1, members) * n + k, c_double), k = 1, n)]
        if (any(abs(found - mine) > 0) .or. before < 0 .or. before >= members) code = 2
        if (abs(total - real(members * n * (members * n + 1) / 2, c_double)) > 0) code = 3
        call check(syncline_rma_sync(rma))
    end function

    subroutine check(status)
        integer(c_int), intent(in) :: status
        if (status == SYNCLINE_STATUS_OK) return
        print '(a)', syncline_message()
        stop 1
    end subroutine
end module

program rma
    use work
    implicit none

    type(syncline_shape), target :: threads = syncline_shape(threads=3), hosts = syncline_shape(hosts=2)

    call check(syncline_team_run(c_loc(threads), c_funloc(member), c_null_ptr))
    call check(syncline_team_run(c_loc(hosts), c_funloc(member), c_null_ptr))
    print '(a)', 'rows and sums are right'
end program
