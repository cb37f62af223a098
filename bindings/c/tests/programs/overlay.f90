! Two tasks of a checked overlay iterate over two locations in Fortran; then handles without an
! overlay. Run by tests/c/programs.rs.
module bodies
    use, intrinsic :: iso_c_binding
    use syncline
    implicit none

    integer, target :: left = 1, right = 2

contains

    ! The body of a task: takes the number of the other task and adds its iteration.
    function take(user, iteration, step) bind(C) result(code)
        type(c_ptr), value :: user, step
        integer(c_int64_t), value :: iteration
        integer(c_int) :: code
        integer, pointer :: mine

        call c_f_pointer(user, mine)
        if (associated(mine, left)) then
            left = right + int(iteration)
        else
            right = left + 1
        end if
        code = syncline_step_report(step, 1d0)
    end function
end module

program overlay_in_fortran
    use, intrinsic :: iso_c_binding
    use syncline
    use bodies
    implicit none

    character(kind=c_char, len=6), target :: name_left = 'left' // c_null_char // ' ', name_right = 'right' // c_null_char
    type(c_ptr), target :: locations(2)
    type(c_ptr) :: overlay, done, text, reader, writer, nothing
    type(syncline_report), pointer :: report
    type(syncline_signal) :: signal
    integer(c_int32_t) :: task
    integer(c_int64_t) :: now
    integer :: l, r, n

    call check(syncline_location_new(c_loc(name_left), locations(1)))
    call check(syncline_location_new(c_loc(name_right), locations(2)))
    call check(syncline_overlay_new(overlay))
    call check(syncline_overlay_task(overlay, c_loc(name_left), c_loc(locations(2)), 1_c_size_t, c_loc(locations(1)), &
        1_c_size_t, c_funloc(take), c_loc(left), task))
    call check(syncline_overlay_task(overlay, c_loc(name_right), c_loc(locations(1)), 1_c_size_t, c_loc(locations(2)), &
        1_c_size_t, c_funloc(take), c_loc(right), task))
    if (task /= 1) error stop 'the second task has the number 1'
    call check(syncline_overlay_check(overlay, SYNCLINE_INITIAL_PROGRAM))
    call check(syncline_overlay_draw(overlay, SYNCLINE_DRAWING_WORDS, text))
    if (index(syncline_text(text), 'left') == 0) error stop 'the drawing names the task'
    call syncline_text_dispose(text)
    call check(syncline_trace_begin(c_loc(name_left)))
    call check(syncline_overlay_run(overlay, SYNCLINE_RUNNER_POOL, 2_c_size_t, 100_c_int64_t, done))
    call check(syncline_trace_end())
    if (syncline_trace_end() /= SYNCLINE_STATUS_MISUSE) error stop 'a section ends once'
    call check(syncline_trace_finish())
    call c_f_pointer(done, report)
    print '(i0, a)', report%steps, ' steps'
    call syncline_report_dispose(done)
    call check(syncline_overlay_free(overlay))
    l = 1
    r = 2
    do n = 0, 99
        l = r + n
        r = l + 1
    end do
    if (left /= l .or. right /= r) error stop 'not the numbers of the loop'

    call check(syncline_reader_new(locations(1), reader))
    call check(syncline_writer_new(locations(1), writer))
    call check(syncline_post(writer))
    call check(syncline_acquire(writer))
    if (syncline_try_acquire(reader) /= SYNCLINE_STATUS_NOT_GRANTED) error stop 'a writer is alone'
    if (syncline_acquire_for(reader, 1000_c_int64_t) /= SYNCLINE_STATUS_TIMED_OUT) error stop 'and stays so'
    call check(syncline_release(writer))
    call check(syncline_acquire(reader))
    call check(syncline_handle_free(reader))
    call check(syncline_handle_free(writer))
    call syncline_location_free(locations(1))
    call syncline_location_free(locations(2))

    ! A signal at its largest number fails with a message.
    call check(syncline_signal_raise_to(signal, SYNCLINE_SIGNAL_MAX - 1))
    call check(syncline_signal_add(signal, 1_c_int64_t, now))
    if (now /= SYNCLINE_SIGNAL_MAX) error stop 'the sum'
    if (syncline_signal_add(signal, 1_c_int64_t, now) /= SYNCLINE_STATUS_CLOSED) error stop 'it is closed'
    print '(a)', syncline_text(syncline_status_text(SYNCLINE_STATUS_CLOSED))
    if (now /= 0) error stop 'an output is zero after a failure'
    if (syncline_signal_add(signal, SYNCLINE_SIGNAL_MAX_ADD + 1, now) /= SYNCLINE_STATUS_INVALID_ARGUMENT) error stop 'too much'
    call check(syncline_signal_wait(signal, SYNCLINE_SIGNAL_MAX))
    call check(syncline_signal_get(signal, now))
    if (now /= SYNCLINE_SIGNAL_MAX) error stop 'it went round'
    if (syncline_location_new(c_null_ptr, nothing) /= SYNCLINE_STATUS_INVALID_ARGUMENT) error stop 'no name'
    print '(a)', syncline_message()

contains

    subroutine check(status)
        integer(c_int), intent(in) :: status

        if (status /= SYNCLINE_STATUS_OK) then
            print '(a)', syncline_message()
            error stop 'a call failed'
        end if
    end subroutine
end program
