! Syncline in Fortran: signals, barriers, queue locks and teams, by iso_c_binding.
!
!     gfortran syncline.f90 program.f90 -lsyncline_c -pthread -ldl -lm
!
! The functions are those of syncline.h, which says what each does and what is an error. They return a status,
! SYNCLINE_STATUS_OK for success; syncline_message() has the words. Ranks are counted from 0, as in C. A test compares
! the names, arguments and numbers here with those of the header.
!
! Signals, barriers and locks may be used by the threads of an OpenMP region, with omp_get_thread_num() as rank. What the
! members of a team run is a function with bind(C): see examples/team.f90.
module syncline
    use, intrinsic :: iso_c_binding
    implicit none
    private

    integer(c_int), parameter, public :: SYNCLINE_STATUS_OK = 0
    integer(c_int), parameter, public :: SYNCLINE_STATUS_NOT_GRANTED = 1
    integer(c_int), parameter, public :: SYNCLINE_STATUS_INVALID_ARGUMENT = 2
    integer(c_int), parameter, public :: SYNCLINE_STATUS_MISUSE = 3
    integer(c_int), parameter, public :: SYNCLINE_STATUS_INTERNAL = 9
    integer(c_int), parameter, public :: SYNCLINE_STATUS_TIMED_OUT = 11
    integer(c_int), parameter, public :: SYNCLINE_STATUS_GONE = 12
    integer(c_int), parameter, public :: SYNCLINE_STATUS_POISONED = 13
    integer(c_int), parameter, public :: SYNCLINE_STATUS_MEMBER_FAILED = 14
    integer(c_int), parameter, public :: SYNCLINE_STATUS_SYSTEM = 15

    integer(c_int32_t), parameter, public :: SYNCLINE_BARRIER_KIND_COUNTER = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_BARRIER_KIND_TOURNAMENT = 1
    integer(c_int32_t), parameter, public :: SYNCLINE_BARRIER_KIND_DISSEMINATION = 2
    integer(c_int32_t), parameter, public :: SYNCLINE_BARRIER_KIND_AUTO = 3

    integer(c_int32_t), parameter, public :: SYNCLINE_LOCK_KIND_TICKET = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_LOCK_KIND_MCS = 1

    ! A number that only grows, from 0. Read and written by the functions below only; not to be copied while in use,
    ! so it is to be a target, or to stand in memory of its own.
    type, bind(C), public :: syncline_signal
        integer(c_int64_t) :: word = 0
    end type

    ! Who takes part in a team: so many processes, or none and so many threads of this one.
    type, bind(C), public :: syncline_shape
        integer(c_size_t) :: processes = 0, threads = 0, memory = 0
    end type

    public :: syncline_message
    public :: syncline_signal_get, syncline_signal_raise_to, syncline_signal_add
    public :: syncline_signal_wait, syncline_signal_wait_for
    public :: syncline_barrier_new, syncline_barrier_free, syncline_barrier_leave
    public :: syncline_barrier_wait, syncline_barrier_wait_for, syncline_barrier_arrive, syncline_barrier_done
    public :: syncline_lock_new, syncline_lock_free, syncline_lock_declare_dead
    public :: syncline_lock_recover, syncline_lock_recover_for
    public :: syncline_lock_acquire, syncline_lock_acquire_for, syncline_lock_try, syncline_lock_release
    public :: syncline_team_run
    public :: syncline_member_rank, syncline_member_size, syncline_member_process, syncline_member_processes
    public :: syncline_member_thread, syncline_member_threads, syncline_member_wait, syncline_member_await
    public :: syncline_member_barrier, syncline_member_lock, syncline_member_memory

    interface
        function syncline_signal_get(signal, number) bind(C) result(status)
            import
            type(syncline_signal), intent(in) :: signal
            integer(c_int64_t), intent(out) :: number
            integer(c_int) :: status
        end function

        function syncline_signal_raise_to(signal, number) bind(C) result(status)
            import
            type(syncline_signal), intent(inout) :: signal
            integer(c_int64_t), value :: number
            integer(c_int) :: status
        end function

        ! now: what the sum is.
        function syncline_signal_add(signal, n, now) bind(C) result(status)
            import
            type(syncline_signal), intent(inout) :: signal
            integer(c_int64_t), value :: n
            integer(c_int64_t), intent(out) :: now
            integer(c_int) :: status
        end function

        function syncline_signal_wait(signal, number) bind(C) result(status)
            import
            type(syncline_signal), intent(in) :: signal
            integer(c_int64_t), value :: number
            integer(c_int) :: status
        end function

        function syncline_signal_wait_for(signal, number, nanoseconds) bind(C) result(status)
            import
            type(syncline_signal), intent(in) :: signal
            integer(c_int64_t), value :: number, nanoseconds
            integer(c_int) :: status
        end function

        ! kind: SYNCLINE_BARRIER_KIND_...; radix: of a dissemination barrier, or 0.
        function syncline_barrier_new(kind, members, radix, barrier) bind(C) result(status)
            import
            integer(c_int32_t), value :: kind
            integer(c_size_t), value :: members, radix
            type(c_ptr), intent(out) :: barrier
            integer(c_int) :: status
        end function

        function syncline_barrier_free(barrier) bind(C) result(status)
            import
            type(c_ptr), value :: barrier
            integer(c_int) :: status
        end function

        function syncline_barrier_wait(barrier, rank) bind(C) result(status)
            import
            type(c_ptr), value :: barrier
            integer(c_size_t), value :: rank
            integer(c_int) :: status
        end function

        function syncline_barrier_wait_for(barrier, rank, nanoseconds) bind(C) result(status)
            import
            type(c_ptr), value :: barrier
            integer(c_size_t), value :: rank
            integer(c_int64_t), value :: nanoseconds
            integer(c_int) :: status
        end function

        function syncline_barrier_arrive(barrier, rank) bind(C) result(status)
            import
            type(c_ptr), value :: barrier
            integer(c_size_t), value :: rank
            integer(c_int) :: status
        end function

        function syncline_barrier_done(barrier, rank, done) bind(C) result(status)
            import
            type(c_ptr), value :: barrier
            integer(c_size_t), value :: rank
            logical(c_bool), intent(out) :: done
            integer(c_int) :: status
        end function

        function syncline_barrier_leave(barrier, rank) bind(C) result(status)
            import
            type(c_ptr), value :: barrier
            integer(c_size_t), value :: rank
            integer(c_int) :: status
        end function

        ! kind: SYNCLINE_LOCK_KIND_...
        function syncline_lock_new(kind, members, lock) bind(C) result(status)
            import
            integer(c_int32_t), value :: kind
            integer(c_size_t), value :: members
            type(c_ptr), intent(out) :: lock
            integer(c_int) :: status
        end function

        function syncline_lock_free(lock) bind(C) result(status)
            import
            type(c_ptr), value :: lock
            integer(c_int) :: status
        end function

        function syncline_lock_acquire(lock, rank) bind(C) result(status)
            import
            type(c_ptr), value :: lock
            integer(c_size_t), value :: rank
            integer(c_int) :: status
        end function

        function syncline_lock_try(lock, rank) bind(C) result(status)
            import
            type(c_ptr), value :: lock
            integer(c_size_t), value :: rank
            integer(c_int) :: status
        end function

        function syncline_lock_release(lock, rank) bind(C) result(status)
            import
            type(c_ptr), value :: lock
            integer(c_size_t), value :: rank
            integer(c_int) :: status
        end function

        function syncline_lock_declare_dead(lock, rank) bind(C) result(status)
            import
            type(c_ptr), value :: lock
            integer(c_size_t), value :: rank
            integer(c_int) :: status
        end function

        function syncline_lock_acquire_for(lock, rank, nanoseconds) bind(C) result(status)
            import
            type(c_ptr), value :: lock
            integer(c_size_t), value :: rank
            integer(c_int64_t), value :: nanoseconds
            integer(c_int) :: status
        end function

        ! poisoned: whether a member died that held the lock.
        function syncline_lock_recover(lock, rank, poisoned) bind(C) result(status)
            import
            type(c_ptr), value :: lock
            integer(c_size_t), value :: rank
            logical(c_bool), intent(out) :: poisoned
            integer(c_int) :: status
        end function

        function syncline_lock_recover_for(lock, rank, nanoseconds, poisoned) bind(C) result(status)
            import
            type(c_ptr), value :: lock
            integer(c_size_t), value :: rank
            integer(c_int64_t), value :: nanoseconds
            logical(c_bool), intent(out) :: poisoned
            integer(c_int) :: status
        end function

        ! shape: the address of a syncline_shape, or c_null_ptr. function: c_funloc of one with bind(C) and the arguments me
        ! and argument, two c_ptr by value; its result is an integer(c_int), 0 for success.
        function syncline_team_run(shape, function, argument) bind(C) result(status)
            import
            type(c_ptr), value :: shape
            type(c_funptr), value :: function
            type(c_ptr), value :: argument
            integer(c_int) :: status
        end function

        function syncline_member_rank(me) bind(C) result(number)
            import
            type(c_ptr), value :: me
            integer(c_size_t) :: number
        end function

        function syncline_member_size(me) bind(C) result(number)
            import
            type(c_ptr), value :: me
            integer(c_size_t) :: number
        end function

        function syncline_member_process(me) bind(C) result(number)
            import
            type(c_ptr), value :: me
            integer(c_size_t) :: number
        end function

        function syncline_member_processes(me) bind(C) result(number)
            import
            type(c_ptr), value :: me
            integer(c_size_t) :: number
        end function

        function syncline_member_thread(me) bind(C) result(number)
            import
            type(c_ptr), value :: me
            integer(c_size_t) :: number
        end function

        function syncline_member_threads(me) bind(C) result(number)
            import
            type(c_ptr), value :: me
            integer(c_size_t) :: number
        end function

        function syncline_member_wait(me) bind(C) result(status)
            import
            type(c_ptr), value :: me
            integer(c_int) :: status
        end function

        function syncline_member_await(me, signal, number, nanoseconds) bind(C) result(status)
            import
            type(c_ptr), value :: me
            type(syncline_signal), intent(in) :: signal
            integer(c_int64_t), value :: number, nanoseconds
            integer(c_int) :: status
        end function

        function syncline_member_barrier(me, kind, radix, barrier) bind(C) result(status)
            import
            type(c_ptr), value :: me
            integer(c_int32_t), value :: kind
            integer(c_size_t), value :: radix
            type(c_ptr), intent(out) :: barrier
            integer(c_int) :: status
        end function

        function syncline_member_lock(me, kind, lock) bind(C) result(status)
            import
            type(c_ptr), value :: me
            integer(c_int32_t), value :: kind
            type(c_ptr), intent(out) :: lock
            integer(c_int) :: status
        end function

        function syncline_member_memory(me, bytes, memory) bind(C) result(status)
            import
            type(c_ptr), value :: me
            integer(c_size_t), value :: bytes
            type(c_ptr), intent(out) :: memory
            integer(c_int) :: status
        end function

        function syncline_last_failure() bind(C) result(failure)
            import
            type(c_ptr) :: failure
        end function
    end interface

    ! The beginning of syncline_failure.
    type, bind(C) :: failure_of_c
        integer(c_int) :: status, code
        integer(c_int64_t) :: iteration
        type(c_ptr) :: task, message
    end type

contains

    ! What the last function that failed on this thread says about it; empty if none has.
    function syncline_message() result(text)
        character(:), allocatable :: text
        type(c_ptr) :: last
        type(failure_of_c), pointer :: failure
        character(kind=c_char), pointer :: bytes(:)
        integer :: length, i

        last = syncline_last_failure()
        if (.not. c_associated(last)) then
            text = ''
            return
        end if
        call c_f_pointer(last, failure)
        call c_f_pointer(failure%message, bytes, [huge(0)])
        length = 0
        do while (bytes(length + 1) /= c_null_char)
            length = length + 1
        end do
        allocate(character(length) :: text)
        do i = 1, length
            text(i:i) = bytes(i)
        end do
    end function
end module
