! Syncline in Fortran: all of syncline.h, through iso_c_binding.
!
!     gfortran syncline.f90 program.f90 -lsyncline_c -pthread -ldl -lm
!
! The functions are those of syncline.h, which documents their semantics and errors. They return a
! status, SYNCLINE_STATUS_OK for success; syncline_message() returns the message of a failure. Ranks
! are counted from 0, as in C. A test compares the names, arguments and constants of this module
! with those of the header: each side has every function and constant of the other.
!
! Threads of an OpenMP region may use signals, barriers and locks with omp_get_thread_num() as rank.
! The function that the members of a team run must have bind(C) (see examples/team.f90); so must the
! function of the workers of a pool (see examples/farm.f90) and the body of a task (see
! tests/programs/overlay.f90).
!
! Differences from C:
! * Objects are of type(c_ptr): the compiler does not distinguish a lock from a barrier.
! * Integers have signs. Numbers above 2^63 - 1 are negative here; negative nanoseconds, such as
!   SYNCLINE_FOREVER, are more than a century.
! * An output for which C accepts NULL, such as the number of a task, must be given. For other
!   arguments of type(c_ptr), c_null_ptr stands for NULL.
! * There is no generic put or get for arrays: their places and lengths are given in bytes, by c_loc
!   and storage_size.
! * The library does not support coarrays: images are not members.
!
! As in C, a member whose syncline_member_wait_for, syncline_barrier_wait_for or
! syncline_rma_sync_for has timed out has arrived. It must wait again, or stay in its function,
! until the others have passed. If it returns before, the others may get the error that it has left
! (SYNCLINE_STATUS_GONE).
module syncline
    use, intrinsic :: iso_c_binding
    implicit none
    private

    integer(c_int), parameter, public :: SYNCLINE_STATUS_OK = 0
    integer(c_int), parameter, public :: SYNCLINE_STATUS_NOT_GRANTED = 1
    integer(c_int), parameter, public :: SYNCLINE_STATUS_INVALID_ARGUMENT = 2
    integer(c_int), parameter, public :: SYNCLINE_STATUS_MISUSE = 3
    integer(c_int), parameter, public :: SYNCLINE_STATUS_DEADLOCK = 4
    integer(c_int), parameter, public :: SYNCLINE_STATUS_BAD_OVERLAY = 5
    integer(c_int), parameter, public :: SYNCLINE_STATUS_BODY_FAILED = 6
    integer(c_int), parameter, public :: SYNCLINE_STATUS_IN_USE = 7
    integer(c_int), parameter, public :: SYNCLINE_STATUS_NO_THREAD = 8
    integer(c_int), parameter, public :: SYNCLINE_STATUS_INTERNAL = 9
    integer(c_int), parameter, public :: SYNCLINE_STATUS_STUCK = 10
    integer(c_int), parameter, public :: SYNCLINE_STATUS_TIMED_OUT = 11
    integer(c_int), parameter, public :: SYNCLINE_STATUS_GONE = 12
    integer(c_int), parameter, public :: SYNCLINE_STATUS_POISONED = 13
    integer(c_int), parameter, public :: SYNCLINE_STATUS_MEMBER_FAILED = 14
    integer(c_int), parameter, public :: SYNCLINE_STATUS_SYSTEM = 15
    integer(c_int), parameter, public :: SYNCLINE_STATUS_NO_ROOM = 16
    integer(c_int), parameter, public :: SYNCLINE_STATUS_TOO_SMALL = 17
    integer(c_int), parameter, public :: SYNCLINE_STATUS_GARBLED = 18
    integer(c_int), parameter, public :: SYNCLINE_STATUS_ALONE = 19
    integer(c_int), parameter, public :: SYNCLINE_STATUS_CLOSED = 20
    integer(c_int), parameter, public :: SYNCLINE_STATUS_NO_MPI = 21
    integer(c_int), parameter, public :: SYNCLINE_STATUS_BAD_COMMUNICATOR = 22
    integer(c_int), parameter, public :: SYNCLINE_STATUS_THREAD_LEVEL = 23
    integer(c_int), parameter, public :: SYNCLINE_STATUS_MPI_FAILED = 24

    integer(c_int32_t), parameter, public :: SYNCLINE_INITIAL_PROGRAM = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_INITIAL_WAVE = 1
    integer(c_int32_t), parameter, public :: SYNCLINE_INITIAL_MAX_PARALLEL = 2

    integer(c_int32_t), parameter, public :: SYNCLINE_RUNNER_THREADS = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_RUNNER_POOL = 1
    integer(c_int32_t), parameter, public :: SYNCLINE_RUNNER_POOL_DEPTH_FIRST = 2
    integer(c_int32_t), parameter, public :: SYNCLINE_RUNNER_STATIC = 3
    integer(c_int32_t), parameter, public :: SYNCLINE_RUNNER_QUEUES = 4

    integer(c_int32_t), parameter, public :: SYNCLINE_DRAWING_WORDS = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_DRAWING_TEXT = 1
    integer(c_int32_t), parameter, public :: SYNCLINE_DRAWING_DOT = 2
    integer(c_int32_t), parameter, public :: SYNCLINE_DRAWING_SVG = 3

    integer(c_int), parameter, public :: SYNCLINE_VERSION_MAJOR = 0
    integer(c_int), parameter, public :: SYNCLINE_VERSION_MINOR = 1
    integer(c_int), parameter, public :: SYNCLINE_VERSION_PATCH = 0

    ! The largest value of a signal, and the largest number that can be added to one at once.
    integer(c_int64_t), parameter, public :: SYNCLINE_SIGNAL_MAX = 4611686018427387903_c_int64_t
    integer(c_int64_t), parameter, public :: SYNCLINE_SIGNAL_MAX_ADD = 4294967296_c_int64_t

    integer(c_int32_t), parameter, public :: SYNCLINE_BARRIER_KIND_COUNTER = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_BARRIER_KIND_TOURNAMENT = 1
    integer(c_int32_t), parameter, public :: SYNCLINE_BARRIER_KIND_DISSEMINATION = 2
    integer(c_int32_t), parameter, public :: SYNCLINE_BARRIER_KIND_AUTO = 3

    integer(c_int32_t), parameter, public :: SYNCLINE_LOCK_KIND_TICKET = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_LOCK_KIND_MCS = 1

    integer(c_int32_t), parameter, public :: SYNCLINE_RMA_NUMBER_I32 = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_RMA_NUMBER_I64 = 1
    integer(c_int32_t), parameter, public :: SYNCLINE_RMA_NUMBER_F32 = 2
    integer(c_int32_t), parameter, public :: SYNCLINE_RMA_NUMBER_F64 = 3
    integer(c_int32_t), parameter, public :: SYNCLINE_RMA_NUMBER_C32 = 4
    integer(c_int32_t), parameter, public :: SYNCLINE_RMA_NUMBER_C64 = 5

    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_VALUE = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_U8 = 1
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_I8 = 2
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_U16 = 3
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_I16 = 4
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_U32 = 5
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_I32 = 6
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_U64 = 7
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_I64 = 8
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_U128 = 9
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_I128 = 10
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_F32 = 11
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_F64 = 12
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_USIZE = 13
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_KIND_ISIZE = 14

    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_END_EXITED = 0
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_END_KILLED = 1
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_END_NOT_STARTED = 2
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_END_NEVER_STARTED = 3
    integer(c_int32_t), parameter, public :: SYNCLINE_FARM_END_FORGOTTEN = 4

    ! Numbers of processes.
    integer(c_int64_t), parameter, public :: SYNCLINE_FARM_MANAGER = 0
    integer(c_int64_t), parameter, public :: SYNCLINE_FARM_NOBODY = -1

    ! Nanoseconds: the largest number without a sign is a wait without a time limit.
    integer(c_int64_t), parameter, public :: SYNCLINE_FOREVER = -1

    ! A number that only grows, from 0 to SYNCLINE_SIGNAL_MAX. Only the functions below read and
    ! write it. It must not be copied while in use, so it must be a target, or stand in memory of
    ! its own.
    type, bind(C), public :: syncline_signal
        integer(c_int64_t) :: word = 0
    end type

    ! The last failure of a thread, by c_f_pointer; syncline_message() returns its message.
    type, bind(C), public :: syncline_failure
        integer(c_int) :: status, code
        integer(c_int64_t) :: iteration
        type(c_ptr) :: task, message
    end type

    ! The results of a run, by c_f_pointer; residuals: residual_count numbers, real(c_double).
    type, bind(C), public :: syncline_report
        integer(c_int64_t) :: iterations, steps
        logical(c_bool) :: converged
        integer(c_int64_t) :: converged_at
        type(c_ptr) :: residuals
        integer(c_size_t) :: residual_count
        integer(c_int64_t) :: interpreted_steps
    end type

    ! The members of a team: a number of processes, or none and a number of threads of this process.
    type, bind(C), public :: syncline_shape
        integer(c_size_t) :: processes = 0, threads = 0, memory = 0, hosts = 0
    end type

    ! An operation on one-sided memory that is in flight, or none, as initially. It must be a
    ! target.
    type, bind(C), public :: syncline_rma_handle
        integer(c_int64_t) :: words(4) = 0
    end type

    ! A contiguous run of a list: its offset in a member's part, its place in the program's memory,
    ! and its length in bytes.
    type, bind(C), public :: syncline_rma_segment
        integer(c_size_t) :: offset = 0
        type(c_ptr) :: buffer = c_null_ptr
        integer(c_size_t) :: bytes = 0
    end type

    type, bind(C), public :: syncline_rma_pair
        integer(c_int64_t) :: first = 0, second = 0
    end type

    ! The limits of a farm. For 0, the library chooses.
    type, bind(C), public :: syncline_farm_bounds
        integer(c_size_t) :: processes = 0, memory = 0
        integer(c_int64_t) :: worker_memory = 0
        integer(c_size_t) :: depth = 0
    end type

    ! The exit cause of a process: SYNCLINE_FARM_END_..., and its exit code or the signal.
    type, bind(C), public :: syncline_exit_cause
        integer(c_int32_t) :: end = 0
        integer(c_int) :: code = 0
    end type

    ! A message that was received, by c_f_pointer: count elements at data, of kind
    ! SYNCLINE_FARM_KIND_...
    type, bind(C), public :: syncline_farm_message
        type(c_ptr) :: data
        integer(c_size_t) :: count, bytes
        integer(c_int64_t) :: from
        integer(c_int32_t) :: kind
    end type

    ! The options of a pool. For 0, the library chooses.
    type, bind(C), public :: syncline_farm_pool_options
        integer(c_int64_t) :: timeout = 0, worker_memory = 0
        integer(c_size_t) :: memory = 0, batch = 0
        integer(c_int32_t) :: retries = 0
        logical(c_bool) :: cold = .false.
    end type

    ! The outcome of a task, by c_f_pointer; syncline_text(error) returns the message if the status
    ! is not SYNCLINE_STATUS_OK.
    type, bind(C), public :: syncline_farm_outcome
        integer(c_int64_t) :: id
        integer(c_int) :: status
        type(c_ptr) :: error, bytes
        integer(c_size_t) :: length
    end type

    type, bind(C), public :: syncline_farm_progress
        integer(c_int64_t) :: submitted = 0, ended = 0, failed = 0, retried = 0, started = 0, lost = 0
    end type

    public :: syncline_message, syncline_text
    public :: syncline_version, syncline_status_text, syncline_reader_new, syncline_writer_new
    public :: syncline_handle_free, syncline_post, syncline_post_all, syncline_acquire, syncline_acquire_for
    public :: syncline_try_acquire, syncline_next, syncline_release, syncline_abandon, syncline_location_new
    public :: syncline_location_free, syncline_overlay_new, syncline_overlay_free, syncline_overlay_task
    public :: syncline_overlay_order, syncline_overlay_check, syncline_overlay_check_priorities
    public :: syncline_overlay_active, syncline_overlay_task_name, syncline_step_report, syncline_step_leave
    public :: syncline_overlay_run, syncline_overlay_run_until, syncline_report_dispose, syncline_text_dispose
    public :: syncline_overlay_draw, syncline_watch_new, syncline_watch_free, syncline_watch_draw
    public :: syncline_watch_stuck, syncline_last_failure
    public :: syncline_signal_get, syncline_signal_raise_to, syncline_signal_add
    public :: syncline_signal_wait, syncline_signal_wait_for
    public :: syncline_trace_start, syncline_trace_finish, syncline_trace_begin, syncline_trace_end
    public :: syncline_barrier_new, syncline_barrier_free, syncline_barrier_leave
    public :: syncline_barrier_wait, syncline_barrier_wait_for, syncline_barrier_arrive, syncline_barrier_done
    public :: syncline_lock_new, syncline_lock_free, syncline_lock_declare_dead
    public :: syncline_lock_recover, syncline_lock_recover_for
    public :: syncline_lock_acquire, syncline_lock_acquire_for, syncline_lock_try_acquire, syncline_lock_release
    public :: syncline_team_run, syncline_team_run_mpi, syncline_team_run_shrinking
    public :: syncline_member_rank, syncline_member_size, syncline_member_process, syncline_member_processes
    public :: syncline_member_thread, syncline_member_threads, syncline_member_wait
    public :: syncline_member_await, syncline_member_await_for
    public :: syncline_member_barrier, syncline_member_lock, syncline_member_memory
    public :: syncline_member_host, syncline_member_hosts, syncline_member_died
    public :: syncline_rma_put, syncline_rma_get, syncline_rma_accumulate, syncline_rma_start_put
    public :: syncline_rma_start_get, syncline_rma_start_accumulate, syncline_rma_put_strided
    public :: syncline_rma_get_strided, syncline_rma_accumulate_strided, syncline_rma_start_put_strided
    public :: syncline_rma_start_get_strided, syncline_rma_start_accumulate_strided, syncline_rma_put_list
    public :: syncline_rma_get_list, syncline_rma_accumulate_list, syncline_rma_start_put_list
    public :: syncline_rma_start_get_list, syncline_rma_start_accumulate_list, syncline_member_rma
    public :: syncline_rma_allocate, syncline_rma_deallocate, syncline_rma_address, syncline_rma_bytes
    public :: syncline_rma_allocate_local, syncline_rma_deallocate_local, syncline_rma_wait, syncline_rma_test
    public :: syncline_rma_wait_all, syncline_rma_fence, syncline_rma_fence_all
    public :: syncline_rma_sync, syncline_rma_sync_for, syncline_rma_sync_start, syncline_rma_sync_done
    public :: syncline_rma_allocate_for, syncline_rma_lock_for, syncline_member_wait_for
    public :: syncline_rma_sync_wait, syncline_rma_sync_wait_for
    public :: syncline_rma_sync_global, syncline_rma_fetch_add_i32, syncline_rma_fetch_add_i64, syncline_rma_swap_i32
    public :: syncline_rma_swap_i64, syncline_rma_swap_pair, syncline_rma_compare_swap_i32
    public :: syncline_rma_compare_swap_i64, syncline_rma_compare_swap_pair
    public :: syncline_rma_mutexes_new, syncline_rma_mutexes_free, syncline_rma_lock, syncline_rma_unlock
    public :: syncline_farm_new, syncline_farm_free, syncline_farm_join, syncline_farm_leave, syncline_farm_vpid
    public :: syncline_farm_parent, syncline_farm_reserve, syncline_farm_start, syncline_farm_spawn
    public :: syncline_farm_wait, syncline_farm_wait_for, syncline_farm_kill, syncline_farm_pid, syncline_farm_living
    public :: syncline_farm_send, syncline_farm_send_for, syncline_farm_recv, syncline_farm_recv_for
    public :: syncline_farm_recv_any, syncline_farm_recv_any_for, syncline_farm_recv_into, syncline_farm_recv_into_for
    public :: syncline_farm_message_dispose, syncline_farm_pool_new, syncline_farm_pool_submit
    public :: syncline_farm_pool_next, syncline_farm_pool_next_for, syncline_farm_outcome_dispose, syncline_farm_pool_progress
    public :: syncline_farm_pool_finish, syncline_farm_pool_free, syncline_farm_serve, syncline_farm_result_set
    public :: syncline_farm_result_room, syncline_farm_result_fail

    interface
        function syncline_version() bind(C) result(text)
            import
            type(c_ptr) :: text
        end function

        ! text: for syncline_text().
        function syncline_status_text(status) bind(C) result(text)
            import
            integer(c_int), value :: status
            type(c_ptr) :: text
        end function

        function syncline_reader_new(location, handle) bind(C) result(status)
            import
            type(c_ptr), value :: location
            type(c_ptr), intent(out) :: handle
            integer(c_int) :: status
        end function

        function syncline_writer_new(location, handle) bind(C) result(status)
            import
            type(c_ptr), value :: location
            type(c_ptr), intent(out) :: handle
            integer(c_int) :: status
        end function

        function syncline_handle_free(handle) bind(C) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_post(handle) bind(C) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        ! handles: c_loc of an array of handles.
        function syncline_post_all(handles, count) bind(C) result(status)
            import
            type(c_ptr), value :: handles
            integer(c_size_t), value :: count
            integer(c_int) :: status
        end function

        function syncline_acquire(handle) bind(C) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_acquire_for(handle, nanoseconds) bind(C) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int64_t), value :: nanoseconds
            integer(c_int) :: status
        end function

        function syncline_try_acquire(handle) bind(C) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_next(handle) bind(C) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_release(handle) bind(C) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_abandon(handle) bind(C) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        ! name: c_loc of characters, the last of which is c_null_char.
        function syncline_location_new(name, location) bind(C) result(status)
            import
            type(c_ptr), value :: name
            type(c_ptr), intent(out) :: location
            integer(c_int) :: status
        end function

        subroutine syncline_location_free(location) bind(C)
            import
            type(c_ptr), value :: location
        end subroutine

        function syncline_overlay_new(overlay) bind(C) result(status)
            import
            type(c_ptr), intent(out) :: overlay
            integer(c_int) :: status
        end function

        function syncline_overlay_free(overlay) bind(C) result(status)
            import
            type(c_ptr), value :: overlay
            integer(c_int) :: status
        end function

        ! name: as for syncline_location_new. reads, writes: c_loc of arrays of locations, or
        ! c_null_ptr. body: c_funloc of a function with bind(C) and the arguments user, iteration
        ! and step: a c_ptr, an integer(c_int64_t) and a c_ptr, all by value; its result is an
        ! integer(c_int), 0 for success.
        function syncline_overlay_task(overlay, name, reads, read_count, writes, write_count, body, &
                user, task) bind(C) result(status)
            import
            type(c_ptr), value :: overlay, name, reads, writes, user
            integer(c_size_t), value :: read_count, write_count
            type(c_funptr), value :: body
            integer(c_int32_t), intent(out) :: task
            integer(c_int) :: status
        end function

        ! tasks, and priorities and tasks below: c_loc of arrays of integer(c_int32_t), priorities
        ! of integer(c_int64_t).
        function syncline_overlay_order(overlay, location, tasks, count) bind(C) result(status)
            import
            type(c_ptr), value :: overlay, location, tasks
            integer(c_size_t), value :: count
            integer(c_int) :: status
        end function

        function syncline_overlay_check(overlay, initial) bind(C) result(status)
            import
            type(c_ptr), value :: overlay
            integer(c_int32_t), value :: initial
            integer(c_int) :: status
        end function

        function syncline_overlay_check_priorities(overlay, priorities, count) bind(C) result(status)
            import
            type(c_ptr), value :: overlay, priorities
            integer(c_size_t), value :: count
            integer(c_int) :: status
        end function

        function syncline_overlay_active(overlay, tasks, capacity, count) bind(C) result(status)
            import
            type(c_ptr), value :: overlay, tasks
            integer(c_size_t), value :: capacity
            integer(c_size_t), intent(out) :: count
            integer(c_int) :: status
        end function

        function syncline_overlay_task_name(overlay, task, name) bind(C) result(status)
            import
            type(c_ptr), value :: overlay
            integer(c_int32_t), value :: task
            type(c_ptr), intent(out) :: name
            integer(c_int) :: status
        end function

        function syncline_step_report(step, norm) bind(C) result(status)
            import
            type(c_ptr), value :: step
            real(c_double), value :: norm
            integer(c_int) :: status
        end function

        function syncline_step_leave(step) bind(C) result(status)
            import
            type(c_ptr), value :: step
            integer(c_int) :: status
        end function

        ! initial, runner, drawing: SYNCLINE_INITIAL_..., SYNCLINE_RUNNER_..., SYNCLINE_DRAWING_...;
        ! report: the address of a syncline_report.
        function syncline_overlay_run(overlay, runner, workers, iterations, report) bind(C) result(status)
            import
            type(c_ptr), value :: overlay
            integer(c_int32_t), value :: runner
            integer(c_size_t), value :: workers
            integer(c_int64_t), value :: iterations
            type(c_ptr), intent(out) :: report
            integer(c_int) :: status
        end function

        function syncline_overlay_run_until(overlay, runner, workers, tolerance, at_most, &
                report) bind(C) result(status)
            import
            type(c_ptr), value :: overlay
            integer(c_int32_t), value :: runner
            integer(c_size_t), value :: workers
            real(c_double), value :: tolerance
            integer(c_int64_t), value :: at_most
            type(c_ptr), intent(out) :: report
            integer(c_int) :: status
        end function

        subroutine syncline_report_dispose(report) bind(C)
            import
            type(c_ptr), value :: report
        end subroutine

        subroutine syncline_text_dispose(text) bind(C)
            import
            type(c_ptr), value :: text
        end subroutine

        ! text, here and below: for syncline_text(); c_null_ptr if there is none.
        function syncline_overlay_draw(overlay, drawing, text) bind(C) result(status)
            import
            type(c_ptr), value :: overlay
            integer(c_int32_t), value :: drawing
            type(c_ptr), intent(out) :: text
            integer(c_int) :: status
        end function

        function syncline_watch_new(overlay, watch) bind(C) result(status)
            import
            type(c_ptr), value :: overlay
            type(c_ptr), intent(out) :: watch
            integer(c_int) :: status
        end function

        subroutine syncline_watch_free(watch) bind(C)
            import
            type(c_ptr), value :: watch
        end subroutine

        function syncline_watch_draw(watch, drawing, text) bind(C) result(status)
            import
            type(c_ptr), value :: watch
            integer(c_int32_t), value :: drawing
            type(c_ptr), intent(out) :: text
            integer(c_int) :: status
        end function

        function syncline_watch_stuck(watch, patience, end_run, drawing, text) bind(C) result(status)
            import
            type(c_ptr), value :: watch
            integer(c_int64_t), value :: patience
            logical(c_bool), value :: end_run
            integer(c_int32_t), value :: drawing
            type(c_ptr), intent(out) :: text
            integer(c_int) :: status
        end function

        ! file: the name of the file, and a zero byte (c_null_char).
        function syncline_trace_start(file) bind(C) result(status)
            import
            type(c_ptr), value :: file
            integer(c_int) :: status
        end function

        function syncline_trace_finish() bind(C) result(status)
            import
            integer(c_int) :: status
        end function

        ! name: the name of the section, and a zero byte.
        function syncline_trace_begin(name) bind(C) result(status)
            import
            type(c_ptr), value :: name
            integer(c_int) :: status
        end function

        function syncline_trace_end() bind(C) result(status)
            import
            integer(c_int) :: status
        end function

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

        ! now: the sum.
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

        ! kind: SYNCLINE_BARRIER_KIND_...; radix: that of a dissemination barrier, or 0.
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

        function syncline_lock_try_acquire(lock, rank) bind(C) result(status)
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

        ! poisoned: whether a member died while it held the lock.
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

        ! shape: the address of a syncline_shape, or c_null_ptr. function: c_funloc of a function
        ! with bind(C) and the arguments me and argument, two c_ptr by value; its result is an
        ! integer(c_int), 0 for success.
        function syncline_team_run(shape, function, argument) bind(C) result(status)
            import
            type(c_ptr), value :: shape
            type(c_funptr), value :: function
            type(c_ptr), value :: argument
            integer(c_int) :: status
        end function

        function syncline_team_run_shrinking(function, argument) bind(C) result(status)
            import
            type(c_funptr), value :: function
            type(c_ptr), value :: argument
            integer(c_int) :: status
        end function

        ! communicator: a handle of the mpi module as it is; of mpi_f08, its component mpi_val.
        function syncline_team_run_mpi(communicator, shape, function, argument) bind(C) result(status)
            import
            integer(c_int), value :: communicator
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

        function syncline_member_host(me) bind(C) result(number)
            import
            type(c_ptr), value :: me
            integer(c_size_t) :: number
        end function

        function syncline_member_hosts(me) bind(C) result(number)
            import
            type(c_ptr), value :: me
            integer(c_size_t) :: number
        end function

        function syncline_member_died(me) bind(C) result(number)
            import
            type(c_ptr), value :: me
            integer(c_size_t) :: number
        end function

        function syncline_member_wait(me) bind(C) result(status)
            import
            type(c_ptr), value :: me
            integer(c_int) :: status
        end function

        function syncline_member_wait_for(me, nanoseconds) bind(C) result(status)
            import
            type(c_ptr), value :: me
            integer(c_int64_t), value :: nanoseconds
            integer(c_int) :: status
        end function

        function syncline_member_await(me, signal, number) bind(C) result(status)
            import
            type(c_ptr), value :: me
            type(syncline_signal), intent(in) :: signal
            integer(c_int64_t), value :: number
            integer(c_int) :: status
        end function

        function syncline_member_await_for(me, signal, number, nanoseconds) bind(C) result(status)
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

        ! from: c_loc of the data to write. The same holds for all functions that follow.
        function syncline_rma_put(rma, memory, rank, offset, from, bytes) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            type(c_ptr), value :: from
            integer(c_size_t), value :: bytes
            integer(c_int) :: status
        end function

        function syncline_rma_get(rma, memory, rank, offset, to, bytes) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            type(c_ptr), value :: to
            integer(c_size_t), value :: bytes
            integer(c_int) :: status
        end function

        ! number: SYNCLINE_RMA_NUMBER_...; factor: c_loc of one such number.
        function syncline_rma_accumulate(rma, memory, rank, offset, number, factor, from, bytes) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int32_t), value :: number
            type(c_ptr), value :: factor, from
            integer(c_size_t), value :: bytes
            integer(c_int) :: status
        end function

        ! handle: c_loc of a syncline_rma_handle, or c_null_ptr for the implicit one.
        function syncline_rma_start_put(rma, memory, rank, offset, from, bytes, handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            type(c_ptr), value :: from
            integer(c_size_t), value :: bytes
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_rma_start_get(rma, memory, rank, offset, to, bytes, handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            type(c_ptr), value :: to
            integer(c_size_t), value :: bytes
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_rma_start_accumulate(rma, memory, rank, offset, number, factor, from, bytes, &
            handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int32_t), value :: number
            type(c_ptr), value :: factor, from
            integer(c_size_t), value :: bytes
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        ! there, here: `levels` strides in bytes; counts: levels + 1 numbers, the first in bytes.
        function syncline_rma_put_strided(rma, memory, rank, offset, there, from, here, counts, &
            levels) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_size_t), intent(in) :: there(*)
            type(c_ptr), value :: from
            integer(c_size_t), intent(in) :: here(*), counts(*)
            integer(c_size_t), value :: levels
            integer(c_int) :: status
        end function

        function syncline_rma_get_strided(rma, memory, rank, offset, there, to, here, counts, &
            levels) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_size_t), intent(in) :: there(*)
            type(c_ptr), value :: to
            integer(c_size_t), intent(in) :: here(*), counts(*)
            integer(c_size_t), value :: levels
            integer(c_int) :: status
        end function

        function syncline_rma_accumulate_strided(rma, memory, rank, offset, number, factor, there, from, &
            here, counts, levels) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int32_t), value :: number
            type(c_ptr), value :: factor
            integer(c_size_t), intent(in) :: there(*)
            type(c_ptr), value :: from
            integer(c_size_t), intent(in) :: here(*), counts(*)
            integer(c_size_t), value :: levels
            integer(c_int) :: status
        end function

        function syncline_rma_start_put_strided(rma, memory, rank, offset, there, from, here, counts, levels, &
            handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_size_t), intent(in) :: there(*)
            type(c_ptr), value :: from
            integer(c_size_t), intent(in) :: here(*), counts(*)
            integer(c_size_t), value :: levels
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_rma_start_get_strided(rma, memory, rank, offset, there, to, here, counts, levels, &
            handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_size_t), intent(in) :: there(*)
            type(c_ptr), value :: to
            integer(c_size_t), intent(in) :: here(*), counts(*)
            integer(c_size_t), value :: levels
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_rma_start_accumulate_strided(rma, memory, rank, offset, number, factor, there, &
            from, here, counts, levels, handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int32_t), value :: number
            type(c_ptr), value :: factor
            integer(c_size_t), intent(in) :: there(*)
            type(c_ptr), value :: from
            integer(c_size_t), intent(in) :: here(*), counts(*)
            integer(c_size_t), value :: levels
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_rma_put_list(rma, memory, rank, list, length) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank
            type(syncline_rma_segment), intent(in) :: list(*)
            integer(c_size_t), value :: length
            integer(c_int) :: status
        end function

        function syncline_rma_get_list(rma, memory, rank, list, length) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank
            type(syncline_rma_segment), intent(in) :: list(*)
            integer(c_size_t), value :: length
            integer(c_int) :: status
        end function

        function syncline_rma_accumulate_list(rma, memory, rank, number, factor, list, length) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank
            integer(c_int32_t), value :: number
            type(c_ptr), value :: factor
            type(syncline_rma_segment), intent(in) :: list(*)
            integer(c_size_t), value :: length
            integer(c_int) :: status
        end function

        function syncline_rma_start_put_list(rma, memory, rank, list, length, handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank
            type(syncline_rma_segment), intent(in) :: list(*)
            integer(c_size_t), value :: length
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_rma_start_get_list(rma, memory, rank, list, length, handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank
            type(syncline_rma_segment), intent(in) :: list(*)
            integer(c_size_t), value :: length
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_rma_start_accumulate_list(rma, memory, rank, number, factor, list, length, &
            handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank
            integer(c_int32_t), value :: number
            type(c_ptr), value :: factor
            type(syncline_rma_segment), intent(in) :: list(*)
            integer(c_size_t), value :: length
            type(c_ptr), value :: handle
            integer(c_int) :: status
        end function

        function syncline_member_rma(me, rma) bind(C) result(status)
            import
            type(c_ptr), value :: me
            type(c_ptr), intent(out) :: rma
            integer(c_int) :: status
        end function

        function syncline_rma_allocate(rma, bytes, memory) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_size_t), value :: bytes
            type(c_ptr), intent(out) :: memory
            integer(c_int) :: status
        end function

        function syncline_rma_allocate_for(rma, bytes, nanoseconds, memory) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_size_t), value :: bytes
            integer(c_int64_t), value :: nanoseconds
            type(c_ptr), intent(out) :: memory
            integer(c_int) :: status
        end function

        function syncline_rma_deallocate(rma, memory) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_int) :: status
        end function

        ! The result is c_null_ptr if the part is on another host.
        function syncline_rma_address(memory, rank) bind(C) result(address)
            import
            type(c_ptr), value :: memory
            integer(c_size_t), value :: rank
            type(c_ptr) :: address
        end function

        function syncline_rma_bytes(memory, rank) bind(C) result(bytes)
            import
            type(c_ptr), value :: memory
            integer(c_size_t), value :: rank
            integer(c_size_t) :: bytes
        end function

        function syncline_rma_allocate_local(rma, bytes, buffer) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_size_t), value :: bytes
            type(c_ptr), intent(out) :: buffer
            integer(c_int) :: status
        end function

        function syncline_rma_deallocate_local(rma, buffer) bind(C) result(status)
            import
            type(c_ptr), value :: rma, buffer
            integer(c_int) :: status
        end function

        function syncline_rma_wait(rma, handle) bind(C) result(status)
            import
            type(c_ptr), value :: rma, handle
            integer(c_int) :: status
        end function

        function syncline_rma_test(rma, handle, done) bind(C) result(status)
            import
            type(c_ptr), value :: rma, handle
            logical(c_bool), intent(out) :: done
            integer(c_int) :: status
        end function

        function syncline_rma_wait_all(rma) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_int) :: status
        end function

        function syncline_rma_fence(rma, rank) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_size_t), value :: rank
            integer(c_int) :: status
        end function

        function syncline_rma_fence_all(rma) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_int) :: status
        end function

        function syncline_rma_mutexes_new(rma, count, mutexes) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_size_t), value :: count
            type(c_ptr), intent(out) :: mutexes
            integer(c_int) :: status
        end function

        function syncline_rma_lock(rma, mutexes, rank, index) bind(C) result(status)
            import
            type(c_ptr), value :: rma, mutexes
            integer(c_size_t), value :: rank, index
            integer(c_int) :: status
        end function

        function syncline_rma_lock_for(rma, mutexes, rank, index, nanoseconds) bind(C) result(status)
            import
            type(c_ptr), value :: rma, mutexes
            integer(c_size_t), value :: rank, index
            integer(c_int64_t), value :: nanoseconds
            integer(c_int) :: status
        end function

        function syncline_rma_unlock(rma, mutexes, rank, index) bind(C) result(status)
            import
            type(c_ptr), value :: rma, mutexes
            integer(c_size_t), value :: rank, index
            integer(c_int) :: status
        end function

        function syncline_rma_mutexes_free(rma, mutexes) bind(C) result(status)
            import
            type(c_ptr), value :: rma, mutexes
            integer(c_int) :: status
        end function

        function syncline_rma_sync(rma) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_int) :: status
        end function

        function syncline_rma_sync_start(rma) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_int) :: status
        end function

        function syncline_rma_sync_wait(rma) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_int) :: status
        end function

        function syncline_rma_sync_for(rma, nanoseconds) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_int64_t), value :: nanoseconds
            integer(c_int) :: status
        end function

        function syncline_rma_sync_wait_for(rma, nanoseconds) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_int64_t), value :: nanoseconds
            integer(c_int) :: status
        end function

        function syncline_rma_sync_done(rma, done) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            logical(c_bool), intent(out) :: done
            integer(c_int) :: status
        end function

        function syncline_rma_sync_global(rma) bind(C) result(status)
            import
            type(c_ptr), value :: rma
            integer(c_int) :: status
        end function

        function syncline_rma_fetch_add_i32(rma, memory, rank, offset, value, before) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int32_t), value :: value
            integer(c_int32_t), intent(out) :: before
            integer(c_int) :: status
        end function

        function syncline_rma_fetch_add_i64(rma, memory, rank, offset, value, before) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int64_t), value :: value
            integer(c_int64_t), intent(out) :: before
            integer(c_int) :: status
        end function

        function syncline_rma_swap_i32(rma, memory, rank, offset, value, before) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int32_t), value :: value
            integer(c_int32_t), intent(out) :: before
            integer(c_int) :: status
        end function

        function syncline_rma_swap_i64(rma, memory, rank, offset, value, before) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int64_t), value :: value
            integer(c_int64_t), intent(out) :: before
            integer(c_int) :: status
        end function

        function syncline_rma_swap_pair(rma, memory, rank, offset, value, before) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            type(syncline_rma_pair), value :: value
            type(syncline_rma_pair), intent(out) :: before
            integer(c_int) :: status
        end function

        function syncline_rma_compare_swap_i32(rma, memory, rank, offset, old, new_, before) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int32_t), value :: old, new_
            integer(c_int32_t), intent(out) :: before
            integer(c_int) :: status
        end function

        function syncline_rma_compare_swap_i64(rma, memory, rank, offset, old, new_, before) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            integer(c_int64_t), value :: old, new_
            integer(c_int64_t), intent(out) :: before
            integer(c_int) :: status
        end function

        function syncline_rma_compare_swap_pair(rma, memory, rank, offset, old, new_, before) bind(C) result(status)
            import
            type(c_ptr), value :: rma, memory
            integer(c_size_t), value :: rank, offset
            type(syncline_rma_pair), value :: old, new_
            type(syncline_rma_pair), intent(out) :: before
            integer(c_int) :: status
        end function

        ! bounds: c_loc of a syncline_farm_bounds, or c_null_ptr.
        function syncline_farm_new(bounds, farm) bind(C) result(status)
            import
            type(c_ptr), value :: bounds
            type(c_ptr), intent(out) :: farm
            integer(c_int) :: status
        end function

        ! farm: c_null_ptr if this process is not a worker.
        function syncline_farm_join(farm) bind(C) result(status)
            import
            type(c_ptr), intent(out) :: farm
            integer(c_int) :: status
        end function

        function syncline_farm_free(farm) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int) :: status
        end function

        function syncline_farm_leave(farm) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int) :: status
        end function

        function syncline_farm_vpid(farm) bind(C) result(number)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t) :: number
        end function

        function syncline_farm_parent(farm) bind(C) result(number)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t) :: number
        end function

        function syncline_farm_reserve(farm, vpid) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), intent(out) :: vpid
            integer(c_int) :: status
        end function

        ! program: c_loc of its name, which ends in c_null_char, or c_null_ptr for this program.
        ! arguments: c_loc of an array of such pointers, the last of which is c_null_ptr; or
        ! c_null_ptr for none.
        function syncline_farm_start(farm, vpid, program, arguments) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: vpid
            type(c_ptr), value :: program, arguments
            integer(c_int) :: status
        end function

        function syncline_farm_spawn(farm, program, arguments, vpid) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            type(c_ptr), value :: program, arguments
            integer(c_int64_t), intent(out) :: vpid
            integer(c_int) :: status
        end function

        function syncline_farm_wait(farm, vpid, cause) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: vpid
            type(syncline_exit_cause), intent(out) :: cause
            integer(c_int) :: status
        end function

        function syncline_farm_wait_for(farm, vpid, nanoseconds, cause) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: vpid, nanoseconds
            type(syncline_exit_cause), intent(out) :: cause
            integer(c_int) :: status
        end function

        function syncline_farm_kill(farm, vpid) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: vpid
            integer(c_int) :: status
        end function

        function syncline_farm_pid(farm, vpid, pid) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: vpid
            integer(c_int32_t), intent(out) :: pid
            integer(c_int) :: status
        end function

        function syncline_farm_living(farm, living) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_size_t), intent(out) :: living
            integer(c_int) :: status
        end function

        ! kind: SYNCLINE_FARM_KIND_...; from: c_loc of the data to send.
        function syncline_farm_send(farm, to, kind, from, count) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: to
            integer(c_int32_t), value :: kind
            type(c_ptr), value :: from
            integer(c_size_t), value :: count
            integer(c_int) :: status
        end function

        function syncline_farm_send_for(farm, to, kind, from, count, nanoseconds) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: to
            integer(c_int32_t), value :: kind
            type(c_ptr), value :: from
            integer(c_size_t), value :: count
            integer(c_int64_t), value :: nanoseconds
            integer(c_int) :: status
        end function

        ! message: the address of a syncline_farm_message.
        function syncline_farm_recv(farm, from, message) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: from
            type(c_ptr), intent(out) :: message
            integer(c_int) :: status
        end function

        function syncline_farm_recv_for(farm, from, nanoseconds, message) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: from, nanoseconds
            type(c_ptr), intent(out) :: message
            integer(c_int) :: status
        end function

        function syncline_farm_recv_any(farm, from, message) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), intent(out) :: from
            type(c_ptr), intent(out) :: message
            integer(c_int) :: status
        end function

        function syncline_farm_recv_any_for(farm, nanoseconds, from, message) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: nanoseconds
            integer(c_int64_t), intent(out) :: from
            type(c_ptr), intent(out) :: message
            integer(c_int) :: status
        end function

        function syncline_farm_recv_into(farm, from, kind, to, capacity, count) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: from
            integer(c_int32_t), value :: kind
            type(c_ptr), value :: to
            integer(c_size_t), value :: capacity
            integer(c_size_t), intent(out) :: count
            integer(c_int) :: status
        end function

        function syncline_farm_recv_into_for(farm, from, kind, to, capacity, nanoseconds, count) bind(C) result(status)
            import
            type(c_ptr), value :: farm
            integer(c_int64_t), value :: from
            integer(c_int32_t), value :: kind
            type(c_ptr), value :: to
            integer(c_size_t), value :: capacity
            integer(c_int64_t), value :: nanoseconds
            integer(c_size_t), intent(out) :: count
            integer(c_int) :: status
        end function

        subroutine syncline_farm_message_dispose(message) bind(C)
            import
            type(c_ptr), value :: message
        end subroutine

        ! options: c_loc of a syncline_farm_pool_options, or c_null_ptr.
        function syncline_farm_pool_new(workers, program, arguments, options, pool) bind(C) result(status)
            import
            integer(c_size_t), value :: workers
            type(c_ptr), value :: program, arguments, options
            type(c_ptr), intent(out) :: pool
            integer(c_int) :: status
        end function

        function syncline_farm_pool_submit(pool, task, length, priority, cost, id) bind(C) result(status)
            import
            type(c_ptr), value :: pool, task
            integer(c_size_t), value :: length
            integer(c_int32_t), value :: priority
            real(c_double), value :: cost
            integer(c_int64_t), intent(out) :: id
            integer(c_int) :: status
        end function

        ! outcome: the address of a syncline_farm_outcome, or c_null_ptr once all tasks have ended.
        function syncline_farm_pool_next(pool, outcome) bind(C) result(status)
            import
            type(c_ptr), value :: pool
            type(c_ptr), intent(out) :: outcome
            integer(c_int) :: status
        end function

        function syncline_farm_pool_next_for(pool, nanoseconds, outcome) bind(C) result(status)
            import
            type(c_ptr), value :: pool
            integer(c_int64_t), value :: nanoseconds
            type(c_ptr), intent(out) :: outcome
            integer(c_int) :: status
        end function

        subroutine syncline_farm_outcome_dispose(outcome) bind(C)
            import
            type(c_ptr), value :: outcome
        end subroutine

        function syncline_farm_pool_progress(pool, progress) bind(C) result(status)
            import
            type(c_ptr), value :: pool
            type(syncline_farm_progress), intent(out) :: progress
            integer(c_int) :: status
        end function

        function syncline_farm_pool_finish(pool) bind(C) result(status)
            import
            type(c_ptr), value :: pool
            integer(c_int) :: status
        end function

        function syncline_farm_pool_free(pool) bind(C) result(status)
            import
            type(c_ptr), value :: pool
            integer(c_int) :: status
        end function

        ! function: c_funloc of a function with bind(C) and the arguments task, length, result and
        ! context: a c_ptr, an integer(c_size_t) and two c_ptr, all by value; its result is an
        ! integer(c_int), 0 for success.
        function syncline_farm_serve(function, context) bind(C) result(status)
            import
            type(c_funptr), value :: function
            type(c_ptr), value :: context
            integer(c_int) :: status
        end function

        function syncline_farm_result_set(result, bytes, length) bind(C) result(status)
            import
            type(c_ptr), value :: result, bytes
            integer(c_size_t), value :: length
            integer(c_int) :: status
        end function

        function syncline_farm_result_room(result, length, bytes) bind(C) result(status)
            import
            type(c_ptr), value :: result
            integer(c_size_t), value :: length
            type(c_ptr), intent(out) :: bytes
            integer(c_int) :: status
        end function

        ! words: c_loc of characters, the last of which is c_null_char.
        function syncline_farm_result_fail(result, words) bind(C) result(status)
            import
            type(c_ptr), value :: result, words
            integer(c_int) :: status
        end function
    end interface

contains

    ! Returns the message of the last function that failed on this thread; empty if none has failed.
    function syncline_message() result(text)
        character(:), allocatable :: text
        type(c_ptr) :: last
        type(syncline_failure), pointer :: failure

        last = syncline_last_failure()
        if (.not. c_associated(last)) then
            text = ''
            return
        end if
        call c_f_pointer(last, failure)
        text = syncline_text(failure%message)
    end function

    ! Copies a text of C; empty for c_null_ptr.
    function syncline_text(pointer) result(text)
        type(c_ptr), intent(in) :: pointer
        character(:), allocatable :: text
        character(kind=c_char), pointer :: bytes(:)
        integer :: length, i

        if (.not. c_associated(pointer)) then
            text = ''
            return
        end if
        call c_f_pointer(pointer, bytes, [huge(0)])
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
