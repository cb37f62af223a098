! Processes as tasks: workers add up the parts of an array that they receive; then a pool of workers
! squares numbers, one of which makes its task fail. All processes run this program; its argument
! selects the role.
!
!     gfortran syncline.f90 farm.f90 -lsyncline_c
module work
    use, intrinsic :: iso_c_binding
    use syncline
    implicit none

    character(kind=c_char, len=6), target :: serve = 'serve' // c_null_char

contains

    ! A worker of the farm: receives numbers from the process that started it, and sends their sum.
    subroutine add(farm)
        type(c_ptr), intent(in) :: farm
        type(c_ptr) :: received
        type(syncline_farm_message), pointer :: message
        real(c_double), pointer :: numbers(:)
        real(c_double), target :: total

        call check(syncline_farm_recv(farm, syncline_farm_parent(farm), received))
        call c_f_pointer(received, message)
        call c_f_pointer(message%data, numbers, [message%count])
        total = sum(numbers)
        call syncline_farm_message_dispose(received)
        call check(syncline_farm_send(farm, syncline_farm_parent(farm), SYNCLINE_FARM_KIND_F64, c_loc(total), 1_c_size_t))
        call check(syncline_farm_leave(farm))
    end subroutine

    ! The function that a worker of the pool calls for each task, as in C.
    function square(task, length, result, context) bind(C) result(code)
        type(c_ptr), value :: task, result, context
        integer(c_size_t), value :: length
        integer(c_int) :: code
        integer(c_int32_t), pointer :: number
        integer(c_int32_t), target :: answer
        character(kind=c_char, len=16), target :: words = 'it is too large' // c_null_char

        code = merge(0, 1, length == 4 .and. .not. c_associated(context))
        call c_f_pointer(task, number)
        if (number > 6) then
            call check(syncline_farm_result_fail(result, c_loc(words)))
            return
        end if
        answer = number**2
        call check(syncline_farm_result_set(result, c_loc(answer), 4_c_size_t))
    end function

    subroutine check(status)
        integer(c_int), intent(in) :: status
        if (status == SYNCLINE_STATUS_OK) return
        print '(a)', syncline_message()
        stop 1
    end subroutine
end module

program farms
    use work
    implicit none

    type(c_ptr) :: farm, pool, taken
    type(c_ptr), target :: arguments(2)
    type(syncline_farm_outcome), pointer :: outcome
    real(c_double), target :: numbers(999), part, total
    integer(c_int32_t), target :: task
    integer(c_int32_t), pointer :: answer
    integer(c_int64_t) :: vpid, id, failed = -1, workers(3)
    integer(c_size_t) :: count
    integer :: n, squares
    character(len=5) :: role
    character(:), allocatable :: words

    call get_command_argument(1, role)
    ! In a worker of the pool, this call does not return.
    if (role == 'serve') call check(syncline_farm_serve(c_funloc(square), c_null_ptr))
    call check(syncline_farm_join(farm))
    if (c_associated(farm)) then
        call add(farm)
        stop
    end if

    numbers = [(n, n = 1, 999)]
    call check(syncline_farm_new(c_null_ptr, farm))
    do n = 1, 3
        call check(syncline_farm_spawn(farm, c_null_ptr, c_null_ptr, vpid))
        call check(syncline_farm_send(farm, vpid, SYNCLINE_FARM_KIND_F64, c_loc(numbers(333 * n - 332)), 333_c_size_t))
        workers(n) = vpid
    end do
    total = 0
    do n = 1, 3
        call check(syncline_farm_recv_into(farm, workers(n), SYNCLINE_FARM_KIND_F64, c_loc(part), 1_c_size_t, count))
        total = total + part
    end do
    print '(a, i0)', 'sum of 3 parts: ', nint(total)
    call check(syncline_farm_free(farm))

    arguments = [c_loc(serve), c_null_ptr]
    call check(syncline_farm_pool_new(2_c_size_t, c_null_ptr, c_loc(arguments), c_null_ptr, pool))
    do task = 0, 7
        call check(syncline_farm_pool_submit(pool, c_loc(task), 4_c_size_t, 0_c_int32_t, 0d0, id))
    end do
    squares = 0
    words = ''
    do
        call check(syncline_farm_pool_next(pool, taken))
        if (.not. c_associated(taken)) exit
        call c_f_pointer(taken, outcome)
        if (outcome%status == SYNCLINE_STATUS_OK) then
            call c_f_pointer(outcome%bytes, answer)
            squares = squares + answer
        else
            failed = outcome%id
            words = syncline_text(outcome%error)
        end if
        call syncline_farm_outcome_dispose(taken)
    end do
    print '(a, i0)', 'sum of the squares: ', squares
    print '(a, i0, 2a)', 'task ', failed, ': ', words
    call check(syncline_farm_pool_finish(pool))
    call check(syncline_farm_pool_free(pool))
end program
