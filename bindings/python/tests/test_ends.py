"""The end of a pool, beside whatever its threads, callbacks and arguments do: nothing hangs."""

import concurrent.futures as futures
import faulthandler
import os
import signal
import sys
import threading
import time

import pytest
import syncline
import tasks
from conftest import LIMIT, TIER, cases, there
from syncline import _futures, _syncline

ENDS = [syncline.Pool.shutdown, syncline.Pool.kill_workers]


@pytest.fixture(autouse=True)
def limited():
    """End the tests if one hangs, also in the main thread, with what each thread does."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def left(tmp_path):
    """Return a pool, and a task of it that does not end."""
    pool = syncline.Pool(2)
    task = pool.submit(tasks.wait_for, tmp_path / "never", tmp_path / "begun")
    there(tmp_path / "begun")
    return pool, task


def begun(call, *args):
    """Call a function in another thread."""
    thread = threading.Thread(target=call, args=args)
    thread.start()
    return thread


def until(condition):
    """Wait until a condition holds."""
    last = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < last
        time.sleep(1e-3)


class Argument:
    """An argument that calls a function while it is pickled."""

    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        self.call()
        return int, (3,)


def submitted(pool, argument):
    return [pool.submit(tasks.square, argument)]


def mapped(pool, argument):
    return list(pool.map(tasks.square, [1, argument, 2]))


def mapped_later(pool, argument):
    return list(pool.map(tasks.square, [*range(40), argument, 2], chunksize=1))


@pytest.mark.parametrize("use", [submitted, mapped, mapped_later])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("ender", ["the argument", "another thread"])
@pytest.mark.parametrize("user", ["the main thread", "a thread"])
def test_a_pool_ends_while_an_argument_is_pickled(use, end, ender, user):
    pool, threads, seen = syncline.Pool(2), [], []
    # A shutdown waits for the items of a map, and so for this one; `submit` has no future yet.
    waits = end is syncline.Pool.shutdown and ender == "another thread" and use is not submitted

    def pickled():
        if threads or pool._over:
            return
        if ender == "the argument":
            end(pool)
        else:
            threads.append(begun(end, pool))
            # Not until all is over: if the crew's thread pickles this, that waits for it.
            until(lambda: pool._closed if waits else pool._ended)

    def run():
        try:
            seen.append(use(pool, Argument(pickled)))
        except Exception as error:
            seen.append(error)

    if user == "a thread":
        begun(run).join(LIMIT)
    else:
        run()
    for thread in threads:
        thread.join(LIMIT)
    until(lambda: pool._over)
    if waits:
        assert seen == [[*map(tasks.square, [*(range(40) if use is mapped_later else [1]), 3, 2])]]
    else:
        assert isinstance(seen[0], syncline.PoolError), seen


@pytest.mark.parametrize("end", ENDS)
def test_a_pool_ends_while_a_callback_waits_for_a_task(end, left, tmp_path):
    pool, task = left
    waits, told = threading.Event(), []

    def wait(_):
        waits.set()
        told.append(task.exception())

    pool.submit(tasks.square, 2).add_done_callback(wait)
    assert waits.wait(LIMIT)
    if end is syncline.Pool.shutdown:
        (tmp_path / "never").touch()
    end(pool)
    assert len(told) == 1
    assert (told == [None]) == (end is syncline.Pool.shutdown)


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", ENDS)
def test_callbacks_of_several_threads_end_a_pool(first, second):
    pool, ended = syncline.Pool(2), []
    meet = threading.Event()

    def end_first(_):
        # In the thread that tells for the main one; the other callback is in the crew's thread.
        meet.wait(1)
        first(pool)
        ended.append(first)

    def end_second(_):
        meet.set()
        second(pool)
        ended.append(second)

    slow = pool.submit(tasks.wait, 0.3)
    quick = pool.submit(tasks.square, 2)
    quick.add_done_callback(end_first)
    slow.add_done_callback(end_second)
    assert quick.result() == 4
    pool.shutdown()
    assert len(ended) == 2 and slow.done()


def test_callbacks_end_the_pools_of_each_other():
    pools, meet = [syncline.Pool(1), syncline.Pool(1)], threading.Barrier(2)
    ended = []
    for own, other in (pools, pools[::-1]):

        def end(_, other=other):
            meet.wait(LIMIT)
            other.shutdown()
            ended.append(other)

        own.submit(tasks.wait, 0.1).add_done_callback(end)
    until(lambda: len(ended) == 2)
    for pool in pools:
        pool.shutdown()


def test_a_pool_waits_for_no_callback_of_another_one():
    lock, waits = threading.Lock(), threading.Event()

    def want(_):
        waits.set()
        with lock:
            pass

    with syncline.Pool(1) as one, syncline.Pool(1) as other:
        with lock:
            task = other.submit(tasks.wait, 0.1)
            task.add_done_callback(want)
            task.result()
            assert waits.wait(LIMIT)
            task = one.submit(tasks.wait, 0.1)
            task.add_done_callback(lambda _: None)
            task.result()
            one.shutdown()


def test_a_progress_function_may_end_the_pool():
    for end in ENDS:
        pool = syncline.Pool(2)
        made = pool.map(tasks.square, range(50), progress=lambda *_, pool=pool, end=end: end(pool))
        try:
            assert list(made) == [n * n for n in range(50)]
        except syncline.PoolError:
            pass
        # It may have been called in the crew's thread, which does not wait.
        until(lambda pool=pool: pool._over)


@pytest.mark.parametrize("end", ["kill_workers", "shutdown"])
def test_callbacks_that_end_a_pool_begin_few_threads(end, left):
    pool, _ = left
    calls, counts = [], []

    def call(_):
        # Without a wait: what is told in the end of the pool is told after it has begun.
        calls.append(pool.kill_workers() if end == "kill_workers" else pool.shutdown(wait=False))
        counts.append(len(os.listdir("/proc/self/task")))

    many = [pool.submit(tasks.wait, 1000) for _ in range(500)]
    for one in many:
        one.add_done_callback(call)
    pool.kill_workers()
    assert len(calls) == 500 and max(counts) < min(counts) + 100


def test_an_end_without_a_thread_is_in_the_caller(monkeypatch, left):
    # As at the end of the interpreter in later versions of Python, or without memory for one.
    def no_thread(*_):
        raise RuntimeError("can't start new thread")

    pool, task = left
    told = []

    def end(_):
        pool.shutdown(wait=False)
        pool.kill_workers()
        told.append(pool._ended)

    task.add_done_callback(end)
    more = [pool.submit(tasks.wait, 1000) for _ in range(5)]
    for one in more:
        one.add_done_callback(told.append)
    with monkeypatch.context() as patched:
        patched.setattr("_thread.start_new_thread", no_thread)
        pool.kill_workers()
    assert told == [True, *more]


def test_a_log_that_raises_stops_no_telling(left):
    import logging

    class Raises(logging.Filter):
        def filter(self, record):
            raise ArithmeticError

    raises, log = Raises(), logging.getLogger("concurrent.futures")
    pool, task = left
    told = []

    def fail(_):
        raise ZeroDivisionError

    quick = pool.submit(tasks.square, 2)
    log.addFilter(raises)
    try:
        for one in [quick, task]:
            one.add_done_callback(fail)
            one.add_done_callback(told.append)
        assert quick.result() == 4
        until(lambda: told == [quick])
        pool.kill_workers()
    finally:
        log.removeFilter(raises)
    assert told == [quick, task]


def test_a_bar_that_cannot_be_drawn_stops_no_end(left, monkeypatch):
    pool, task = left
    pool.map(tasks.wait, [0.01, 0.01, 1000, 1000], progress=True)
    reads, writes = os.pipe()
    os.close(reads)
    with monkeypatch.context() as patched, open(writes, "w", buffering=1) as closed:
        patched.setattr(sys, "stderr", closed)
        pool.kill_workers()
    assert isinstance(task.exception(), syncline.PoolError)


def test_two_threads_that_drive_settle_each_task_once(tmp_path):
    """A callback of one pool drives another one, beside the main thread."""
    stopped, seen = threading.Event(), []
    before = sys.getswitchinterval()
    with syncline.Pool(1) as one, syncline.Pool(2, retries=3) as other:

        def drive(_):
            while not stopped.is_set():
                seen.append(other.submit(tasks.square, 2).result())

        one.submit(tasks.wait, 0.05).add_done_callback(drive)
        sys.setswitchinterval(1e-5)
        try:
            for n in range(cases(32)):
                made = [other.submit(tasks.die_once, tmp_path / f"{n}.{m}") for m in range(2)]
                assert [future.result() for future in made] == ["second"] * 2
                made = other.map(
                    tasks.die_once, [tmp_path / f"{n}.{m}" for m in range(1, 5)], chunksize=4
                )
                assert list(made) == ["second"] * 4
        finally:
            stopped.set()
            sys.setswitchinterval(before)
    assert set(seen) == {4}


def test_progress_is_told_to_the_last_item():
    told = []

    def slowly(*counts):
        time.sleep(0.02)
        told.append(counts)

    with syncline.Pool(2) as pool:
        assert list(pool.map(tasks.square, range(9), progress=slowly)) == [n * n for n in range(9)]
    assert told[-1] == (9, 9)


def test_progress_may_take_what_follows_a_death(pool):
    taken = []

    def take(done, count):
        if not taken:
            taken.append(next(made))

    made = pool.map(
        tasks.die_at, range(6), [3] * 6, chunksize=6, progress=take, return_exceptions=True
    )
    until(lambda: taken)
    taken += made
    assert isinstance(taken.pop(3), syncline.WorkerError) and taken == [0, 1, 2, 4, 5]


def test_an_argument_that_leaves_is_the_error_of_its_item(pool):
    def leave():
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit(3)

    made = pool.map(
        tasks.square, [*range(9), Argument(leave), 2], chunksize=1, return_exceptions=True
    )
    other = pool.submit(tasks.square, 3)
    seen = []
    taker = begun(lambda: seen.extend(made))
    taker.join(LIMIT)
    assert other.result(LIMIT) == 9 and seen[:9] == [n * n for n in range(9)]
    assert isinstance(seen[9], SystemExit) or seen[9] == 9, seen
    assert seen[10] == 4


def test_items_that_raise_are_told_while_others_do():
    with syncline.Pool(2) as pool:
        made = pool.map(tasks.fail, range(20000), chunksize=10, return_exceptions=True)
        assert sum(isinstance(one, LookupError) for one in made) == 20000
        with pytest.raises(LookupError, match="no 0"):
            list(pool.map(tasks.fail, range(20000), chunksize=10))


def test_what_was_not_founded_holds_no_file():
    before = len(os.listdir("/proc/self/fd"))
    for wrong in ({"memory": "none"}, {"memory": 10}):
        with pytest.raises((ValueError, syncline.PoolError)):
            syncline.Pool(1, initializer=tasks.initialize, initargs=("set",), **wrong)
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("place", ["_create_and_install_waiters", "wait of an event"])
def test_the_handler_of_a_signal_delays_a_wait_and_loses_nothing(place):
    """A handler that takes long, while `wait` has the lock of the future, or of its event."""
    code = futures._base._create_and_install_waiters.__code__
    if place == "wait of an event":
        code = threading.Condition.wait.__code__
    with syncline.Pool(1) as pool:
        task = pool.submit(tasks.wait, 0.2)

        def trace(frame, event, value):
            if frame.f_code is code:
                sys.settrace(None)
                time.sleep(1.5 * _futures._PATIENCE)

        sys.settrace(trace)
        try:
            done = futures.wait([task], LIMIT).done
        finally:
            sys.settrace(None)
        assert done == {task}


def test_what_was_told_in_the_end_was_told_once(left):
    pool, task = left
    told, waited = [], []
    others = [pool.submit(tasks.square, n) for n in range(200)]
    for one in [task, *others]:
        one.add_done_callback(told.append)
    waiter = begun(lambda: waited.append(futures.wait([task, *others])))
    pool.kill_workers()
    waiter.join(LIMIT)
    assert set(told) == waited[0].done == {task, *others} and len(told) == 201
    assert isinstance(task.exception(), syncline.PoolError)


def test_callbacks_of_a_pool_that_was_forgotten_are_called(tmp_path):
    called = []
    pool = syncline.Pool(1)
    pool.submit(tasks.square, 2).add_done_callback(called.append)
    del pool
    until(lambda: called)


class Interrupt(BaseException):
    pass


def interrupted(call, step, of):
    """Call a function, and raise at one of its calls or returns; return whether it had as many."""
    count = 0

    def trace(frame, event, value):
        nonlocal count
        if event in ("call", "return"):
            count += 1
            if count in of or count == step:
                raise Interrupt
        return trace

    try:
        sys.settrace(trace)
        call()
    except Interrupt:
        pass
    finally:
        sys.settrace(None)
    return count >= step


USES = {
    "kill_workers": syncline.Pool.kill_workers,
    "__exit__": lambda pool: pool.__exit__(None, None, None),
    "__exit__ of an exception": lambda pool: pool.__exit__(ValueError, ValueError(), None),
}


@pytest.mark.skipif(TIER == "quick", reason="only `make test-full` interrupts each step")
@pytest.mark.parametrize(
    "use, again", [*((use, False) for use in USES), ("__exit__", True)], ids=str
)
def test_an_interrupt_at_each_step_leaves_no_task(use, again):
    step, more = 0, True
    while more:
        step += 1
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        pool = syncline.Pool(1)
        some = [pool.submit(tasks.wait, 0.02), pool.submit(tasks.square, 2)]
        waiter = threading.Thread(target=futures.wait, args=(some,))
        waiter.start()
        # The second one comes some steps later, while the first one is handled.
        of = {step + 3 + step % 5} if again else ()
        more = interrupted(lambda pool=pool: USES[use](pool), step, of)
        waiter.join(LIMIT)
        assert not waiter.is_alive() and all(one.done() for one in some)
        pool.kill_workers()
        assert pool._over


@pytest.mark.parametrize("apart", [0, 1e-3, 3e-3, 6e-3])
def test_ctrl_c_twice_ends_a_block_and_its_tasks(apart, left):
    pool, task = left
    calls = threading.Event()
    task.add_done_callback(lambda _: calls.set())
    other = pool.submit(tasks.wait, 1000)
    waiter = begun(futures.wait, [task, other])

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(apart)
        os.kill(os.getpid(), signal.SIGINT)

    def use():
        with pool:
            begun(interrupt)
            task.result()

    with pytest.raises(KeyboardInterrupt):
        use()
        time.sleep(LIMIT)
    # The second one may come when the block has ended.
    try:
        time.sleep(0.1)
    except KeyboardInterrupt:
        pass
    waiter.join(LIMIT)
    assert not waiter.is_alive() and calls.wait(LIMIT)
    assert isinstance(other.exception(), syncline.PoolError)


def test_locks_that_a_wait_has_left_delay_nothing():
    """As an interrupt leaves those of a `wait` for many futures, in the main thread."""
    with syncline.Pool(2) as pool:
        many = [pool.submit(tasks.square, n) for n in range(3000)]
        for one in many:
            one._condition.acquire()
        # Another thread waits for them, and sees each one.
        seen = []
        other = begun(lambda: seen.append(futures.wait(many)))
        # Each lock by itself would take its patience: more than the limit.
        assert [one.result() for one in many] == [n * n for n in range(3000)]
        other.join(LIMIT)
        assert len(seen[0].done) == 3000
        assert futures.wait(many).not_done == set()


def test_a_lock_is_taken_over_only_if_it_was_left():
    asked = []

    def is_left(owner, waited, is_circle):
        asked.append((owner, waited))
        return len(asked) > 2, False

    lock, main = _syncline.FutureLock(is_left), threading.get_ident()
    with lock, lock:
        assert not asked
        begun(lock.acquire).join(LIMIT)
        assert [owner for owner, _ in asked] == [main] * 3
        # The release of what was taken over does no harm.
    assert asked[0][1] <= asked[1][1] <= asked[2][1]


def test_a_lock_that_was_acquired_again_is_not_taken_over():
    goes_on, asks = threading.Event(), threading.Event()

    def is_left(owner, waited, is_circle):
        if not asks.is_set():
            asks.set()
            return goes_on.wait(LIMIT), False  # it was left, when one looked
        return False, False

    lock = _syncline.FutureLock(is_left)
    lock.acquire()
    other = begun(lock.acquire)
    assert asks.wait(LIMIT)
    with lock:
        goes_on.set()
        other.join(0.1)
        assert other.is_alive()
    lock.release()
    other.join(LIMIT)


def test_a_circle_of_threads_is_seen():
    main, all_begun = threading.get_ident(), threading.Event()

    def is_left(owner, waited, is_circle):
        return owner == main and is_circle, False

    left, one, other = (_syncline.FutureLock(is_left) for _ in range(3))

    def wait(own, ready, wanted):
        with own:
            ready.set()
            assert all_begun.wait(LIMIT)
            with wanted:
                pass

    # The main thread waits for `one`, its owner for `other`, and that one's for `left`.
    left.acquire()
    ready = [threading.Event(), threading.Event()]
    threads = [
        begun(wait, one, ready[0], other),
        begun(wait, other, ready[1], left),
    ]
    assert all(event.wait(LIMIT) for event in ready)
    all_begun.set()
    with one:
        pass
    for thread in threads:
        thread.join(LIMIT)
    with left:
        pass


def test_the_main_thread_has_left_if_it_is_in_no_code_that_uses_locks(tmp_path):
    main = threading.get_ident()
    answers = []

    def ask(waited):
        thread = begun(lambda: answers.append(_futures._is_left(main, waited, False)))
        thread.join(LIMIT)
        return answers.pop()

    assert ask(0) == (True, True)
    assert _futures._is_left(main + 1, 0, False) == (True, True)  # the thread is gone
    asked = []

    class Waiters(list):
        def append(self, waiter):
            # The handler of a signal, on top of `wait`.
            waits = 0, 2 * _futures._PATIENCE, 2 * _futures._HANDLERS_PATIENCE
            asked.extend(ask(waited)[0] for waited in waits)
            super().append(waiter)

    with syncline.Pool(1) as pool:
        task = pool.submit(tasks.wait, 0.2)
        task._waiters = Waiters()
        futures.wait([task], 0.01)
        assert asked == [False, False, True]
        # A wait for the event of the waiter has no locks.
        task = pool.submit(tasks.wait_for, tmp_path / "go")

        def look():
            until(lambda: task._waiters)
            until(lambda: _futures._is_left(main, 0, False) == (True, True))
            (tmp_path / "go").touch()

        other = begun(look)
        assert futures.wait([task], LIMIT).done == {task}
        other.join(LIMIT)
        stopped = threading.Event()
        waiting = begun(stopped.wait)
        assert _futures._is_left(waiting.ident, 1000, True) == (False, False)
        stopped.set()


def test_a_turn_has_one_block_at_a_time():
    turn, seen = _syncline.Turn(), []

    def look():
        with turn as is_mine:
            seen.append((is_mine, turn.is_taken()))

    look()
    with turn as is_mine:
        assert is_mine
        look()
        begun(look).join(LIMIT)
        assert turn.is_taken() == (True, True)
    assert turn.is_taken() == (False, False)
    look()
    assert seen == [
        (True, (True, True)),
        (False, (True, True)),
        (False, (True, False)),
        (True, (True, True)),
    ]
