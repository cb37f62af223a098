"""Pools: every task ends, whatever happens to its worker, in the words of `concurrent.futures`."""

import concurrent.futures as futures
import contextlib
import gc
import math
import os
import pickle
import random
import signal
import threading
import time

import numpy as np
import pytest
import syncline
import tasks
from conftest import LIMIT, cases, gone, seed, there


def test_results_and_exceptions(pool):
    assert pool.submit(tasks.square, 7).result(LIMIT) == 49
    assert pool.submit(tasks.add, 1, y=2).result(LIMIT) == 3
    failed = pool.submit(tasks.fail, "way")
    with pytest.raises(LookupError, match="no way") as caught:
        failed.result(LIMIT)
    assert "in fail" in str(caught.value.__cause__) and failed.exception() is caught.value
    assert isinstance(pool.submit(tasks.leave).exception(LIMIT), SystemExit)
    locked = pool.submit(tasks.fail_with_a_lock).exception(LIMIT)
    assert isinstance(locked, syncline.TaskPicklingError) and "locked" in str(locked)
    assert "in fail_with_a_lock" in str(locked.__cause__)
    assert isinstance(pool.submit(tasks.unpicklable).exception(LIMIT), syncline.TaskPicklingError)
    assert pool.submit(tasks.square, 3).result(LIMIT) == 9


def test_it_is_an_executor(pool):
    assert isinstance(pool, futures.Executor)
    some = [pool.submit(tasks.square, n) for n in range(50)]
    done, left = futures.wait(some, LIMIT)
    assert len(done) == 50 and not left
    assert sorted(f.result() for f in futures.as_completed(some, LIMIT)) == sorted(
        n * n for n in range(50)
    )
    called = threading.Event()
    pool.submit(tasks.square, 2).add_done_callback(lambda future: called.set())
    assert called.wait(LIMIT)


def test_asyncio(pool):
    import asyncio

    async def use():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            *(loop.run_in_executor(pool, tasks.square, n) for n in range(20))
        )

    assert asyncio.run(use()) == [n * n for n in range(20)]


def test_a_death_is_the_error_of_its_task_alone(pool):
    some = [pool.submit(tasks.die_at, n, 5) for n in range(20)]
    for n, future in enumerate(some):
        if n == 5:
            with pytest.raises(syncline.WorkerError, match="killed by signal 9"):
                future.result(LIMIT)
        else:
            assert future.result(LIMIT) == n
    assert isinstance(pool.submit(tasks.exit_at_once, 1).exception(LIMIT), syncline.WorkerError)


def test_retries(tmp_path):
    with syncline.Pool(2, retries=1) as pool:
        assert pool.submit(tasks.die_once, tmp_path / "a").result(LIMIT) == "second"
        assert list(pool.map(tasks.die_once, [tmp_path / "b"])) == ["second"]
        with pytest.raises(syncline.WorkerError, match="2 tries"):
            pool.submit(tasks.die, 1).result(LIMIT)


def test_a_wait_with_a_timeout_leaves_the_task(tmp_path, pool):
    future = pool.submit(tasks.wait_for, str(tmp_path / "go"))
    with pytest.raises(TimeoutError):
        future.result(0.05)
    with pytest.raises(TimeoutError):
        future.exception(0)
    (tmp_path / "go").touch()
    assert future.result(LIMIT) in pool._crew.pids()


def test_cancellation(tmp_path):
    with syncline.Pool(1, batch=1) as pool:
        first = pool.submit(tasks.wait_for, tmp_path / "go", tmp_path / "begun")
        others = [pool.submit(tasks.square, n) for n in range(10)]
        there(tmp_path / "begun")
        assert others[9].cancel() and others[9].cancelled()
        assert not first.cancel()
        with pytest.raises(futures.CancelledError):
            others[9].result(LIMIT)
        (tmp_path / "go").touch()
        assert [f.result(LIMIT) for f in others[:9]] == [n * n for n in range(9)]


def test_priorities(tmp_path):
    # The one worker writes the order down: callbacks of two threads may pass each other.
    with syncline.Pool(1, batch=1) as pool:
        first = pool.submit(tasks.wait_for, tmp_path / "go", tmp_path / "begun")
        there(tmp_path / "begun")
        for n in range(5):
            pool.submit_with(tasks.note, tmp_path / "log", n, priority=n)
        (tmp_path / "go").touch()
        first.result(LIMIT)
        pool.shutdown()
        assert (tmp_path / "log").read_text().split() == ["4", "3", "2", "1", "0"]


def test_initializers():
    with syncline.Pool(1, initializer=tasks.initialize, initargs=("set",)) as pool:
        assert pool.submit(tasks.state).result(LIMIT) == "set"
    with syncline.Pool(1, initializer=tasks.exit_at_once, initargs=(1,)) as pool:
        assert isinstance(pool.submit(tasks.square, 1).exception(LIMIT), syncline.PoolError)


def test_memory_bounds(monkeypatch):
    # On a machine of many processors numpy's threads take more than the bound.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    with syncline.Pool(1, worker_memory="600M") as pool:
        assert pool.submit(tasks.take, 1).result(LIMIT) == 1 << 20
        assert isinstance(pool.submit(tasks.take, 4000).exception(LIMIT), MemoryError)
        assert pool.submit(tasks.square, 2).result(LIMIT) == 4


def test_arrays(pool, rng):
    a = rng.normal(size=(300, 400))
    assert pool.submit(tasks.total, a).result(LIMIT) == a.sum()
    doubled = pool.submit(tasks.double, a).result(LIMIT)
    assert (doubled == 2 * a).all() and doubled.flags.writeable
    doubled[:] = 0
    same = pool.submit(tasks.increment, np.asfortranarray(a)).result(LIMIT)
    assert (same == a + 1).all() and same.flags.f_contiguous
    several = pool.submit(tasks.add, [a, a], y=[a[::2]]).result(LIMIT)
    assert len(several) == 3 and (several[2] == a[::2]).all()
    assert [float(x[0, 0]) for x in pool.map(tasks.double, [a] * 8)] == [2 * a[0, 0]] * 8
    kept = [pool.submit(tasks.double, a).result(LIMIT) for _ in range(30)]
    assert all((one == 2 * a).all() for one in kept)


def test_results_outlive_the_pool(rng):
    a = rng.normal(size=(200, 200))
    with syncline.Pool(1) as pool:
        result = pool.submit(tasks.double, a).result(LIMIT)
    del pool
    gc.collect()
    assert (result == 2 * a).all()


def test_kept_results_do_not_fill_the_memory(rng):
    a = rng.normal(size=1 << 17)
    with syncline.Pool(2, memory="16M") as pool:
        kept = list(pool.map(tasks.double, [a] * 100))
        assert all((one == 2 * a).all() for one in kept)


def test_more_than_the_memory_is_an_error():
    with syncline.Pool(1, memory="1M") as pool:
        with pytest.raises(syncline.PoolError, match="cannot be sent"):
            pool.submit(tasks.total, np.zeros(1 << 20)).result(LIMIT)
        assert pool.submit(tasks.square, 2).result(LIMIT) == 4


def test_shared_arrays(pool):
    a = syncline.empty((100, 200))
    assert a.shape == (100, 200) and (a == 0).all()
    list(pool.map(tasks.fill, [a[n] for n in range(100)], range(100)))
    assert (a == np.arange(100)[:, None]).all()
    assert pool.submit(tasks.shares, a[::2, 3:]).result(LIMIT) == ("SharedArray", True)
    a.flags.writeable = False
    assert pool.submit(tasks.shares, a).result(LIMIT) == ("SharedArray", False)
    assert type(a + 1) is np.ndarray and type(a.sum()) is np.float64
    assert pool.submit(tasks.total, a + 1).result(LIMIT) == (a + 1).sum()
    again = pickle.loads(pickle.dumps(a))
    assert np.shares_memory(again, a) or again.ctypes.data != a.ctypes.data
    with pytest.raises(syncline.ArrayError):
        syncline.empty(3, object)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        pool.submit(tasks.total, syncline.empty(1000)).result(LIMIT)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_threads_share_a_pool(pool):
    def use(start):
        for n in range(start, start + 200):
            assert pool.submit(tasks.square, n).result(LIMIT) == n * n
        assert list(pool.map(tasks.square, range(300))) == [n * n for n in range(300)]

    with futures.ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(use, 1000 * n) for n in range(6)]:
            done.result(LIMIT)


def test_nothing_is_done_after_the_end():
    pool = syncline.Pool(1)
    future = pool.submit(tasks.square, 3)
    pool.shutdown()
    assert future.result() == 9
    for use in (lambda: pool.submit(tasks.square, 1), lambda: pool.map(tasks.square, [1])):
        with pytest.raises(syncline.PoolError, match="shut down"):
            use()
    pool.shutdown()
    with pytest.raises(ZeroDivisionError), syncline.Pool(1) as pool:
        future = pool.submit(tasks.wait, 1000)
        1 / 0  # the block ends at once
    assert isinstance(future.exception(), syncline.PoolError)
    pool = syncline.Pool(1)
    late = pool.submit(tasks.wait, 0.1, "late")
    pool.shutdown(wait=False)
    assert late.result(LIMIT) == "late"


def test_a_forgotten_pool_ends():
    pool = syncline.Pool(1)
    worker = pool.submit(tasks.pid).result(LIMIT)
    del pool
    gc.collect()
    gone(worker)


@pytest.mark.parametrize(
    "options, error",
    [
        ({"max_workers": 0}, ValueError),
        ({"max_workers": 1.5}, TypeError),
        ({"retries": -1}, ValueError),
        ({"timeout": 0}, ValueError),
        ({"memory": "none"}, ValueError),
        ({"memory": 10}, syncline.PoolError),
        ({"batch": 0}, ValueError),
        ({"initializer": 3}, TypeError),
        ({"max_workers": 1 << 40}, (syncline.PoolError, OverflowError)),
    ],
)
def test_wrong_settings(options, error):
    with pytest.raises(error):
        syncline.Pool(**options)


def test_random_kills():
    kills, killed, chosen = cases(40), 0, seed(5)
    print(f"seed {chosen}")
    rng = random.Random(chosen)
    with syncline.Pool(3) as pool:
        while killed < kills:
            some = [pool.submit(tasks.wait, 0.002 * (n % 3), n) for n in range(60)]
            made = pool.map(tasks.square, range(200))
            for _ in range(5):
                time.sleep(rng.random() * 0.01)
                pids = pool._crew.pids()
                if pids:
                    with contextlib.suppress(ProcessLookupError):  # it has just been killed
                        os.kill(rng.choice(pids), signal.SIGKILL)
                        killed += 1
            for n, future in enumerate(some):
                try:
                    assert future.result(LIMIT) == n
                except syncline.WorkerError:
                    pass
            seen = 0
            try:
                for n, value in enumerate(made):
                    assert value == n * n
                    seen += 1
            except syncline.WorkerError:
                pass
        assert pool.submit(tasks.square, 4).result(LIMIT) == 16
    assert not pool._tasks


def test_pools_in_workers(pool):
    assert pool.submit(tasks.nested).result(LIMIT) == 25


def test_workers_import_little(pool):
    assert not pool.submit(tasks.imported, "syncline._sweep").result(LIMIT)


def test_other_waits_see_a_cancelled_task(tmp_path):
    with syncline.Pool(1, batch=1) as pool:
        first = pool.submit(tasks.wait_for, str(tmp_path / "go"))
        late = pool.submit(tasks.square, 1)
        waiting = threading.Thread(target=lambda: futures.wait([late]))
        waiting.start()
        with contextlib.suppress(TimeoutError):
            late.result(0.05)
        assert late.cancel()
        waiting.join(LIMIT)
        assert not waiting.is_alive() and futures.wait([late], LIMIT).done == {late}
        (tmp_path / "go").touch()
        first.result(LIMIT)


def test_a_wait_counts_each_task_once(tmp_path):
    with syncline.Pool(2, batch=1) as pool:
        some = [pool.submit(tasks.wait_for, str(tmp_path / "go")) for _ in range(2)]
        late = [pool.submit(tasks.square, n) for n in range(6)]
        assert [one.cancel() for one in late] == [True] * 6
        opened = threading.Timer(0.2, (tmp_path / "go").touch)
        opened.start()
        # The cancelled ones were there before the wait, and end no part of it.
        assert futures.wait(some + late, LIMIT).not_done == set()
        opened.join()


def test_polls_make_progress(pool):
    future = pool.submit(tasks.wait, 0.2, "there")
    until = time.monotonic() + LIMIT
    while True:
        try:
            assert future.result(0) == "there"
            break
        except TimeoutError:
            assert time.monotonic() < until
            time.sleep(0.0005)


def test_callbacks_may_wait_and_fail(pool):
    told = []

    def wait(future):
        told.append(pool.submit(tasks.square, future.result()).result(LIMIT))

    pool.submit(tasks.square, 2).add_done_callback(wait)
    futures.wait([pool.submit(tasks.square, 3)], LIMIT)
    until = time.monotonic() + LIMIT
    while told != [16]:
        assert time.monotonic() < until
        time.sleep(0.001)

    def fails(*_):
        raise ArithmeticError("told")

    with pytest.raises(ArithmeticError, match="told"):
        list(pool.map(tasks.square, range(5), progress=fails))

    def leaves(_):
        raise SystemExit

    left = pool.submit(time.sleep, 0.1)
    with contextlib.suppress(SystemExit):  # if it is done already
        left.add_done_callback(leaves)
    left.add_done_callback(told.append)
    until = time.monotonic() + LIMIT
    while told[-1] is not left:
        assert time.monotonic() < until
        time.sleep(0.001)
    assert pool.submit(tasks.square, 5).result(LIMIT) == 25


def test_a_pool_may_end_in_a_callback():
    pool = syncline.Pool(1)
    ended = threading.Event()

    def end(_):
        pool.shutdown(wait=False, cancel_futures=True)
        ended.set()

    pool.submit(tasks.square, 2).add_done_callback(end)
    assert ended.wait(LIMIT)


def test_large_initial_arguments():
    with syncline.Pool(1, initializer=tasks.initialize, initargs=(np.ones(1 << 17),)) as pool:
        assert pool.submit(tasks.state).result(LIMIT).sum() == 1 << 17


def test_functions_that_were_pickled_by_value_have_no_state(pool):
    pytest.importorskip("cloudpickle")
    calls = []

    def count(_):
        calls.append(1)
        return len(calls)

    assert list(pool.map(count, range(9), chunksize=1)) == [1] * 9
    assert [pool.submit(count, 0).result(LIMIT) for _ in range(5)] == [1] * 5


def test_exceptions_of_all_kinds_come_back(pool):
    for error in (
        pool.submit(tasks.fail_stubbornly).exception(LIMIT),
        next(pool.map(tasks.fail_stubbornly, [0], return_exceptions=True)),
    ):
        assert type(error) is tasks.Stubborn and error.two == 2 and str(error) == "1 and 2"
        assert "fail_stubbornly" in str(error.__cause__)


def test_shared_arrays_of_a_task_come_back_as_copies(pool):
    made = pool.submit(tasks.shared_copy, 3).result(LIMIT)
    assert made.shape == (100, 100) and (made == 3).all()
    assert [float(x[0, 0]) for x in pool.map(tasks.shared_copy, range(20))] == list(range(20))


def test_an_initializer_that_raises_is_the_reason_of_all_tasks(capfd):
    with syncline.Pool(2, initializer=tasks.fails_to_start, initargs=("no licence",)) as pool:
        assert repr(pool) == "<syncline.Pool of 2 workers>"
        for _ in range(3):
            error = pool.submit(tasks.square, 1).exception(LIMIT)
            assert isinstance(error, syncline.PoolError) and "no licence" in str(error)
            assert "fails_to_start" in str(error.__cause__)
        with pytest.raises(syncline.PoolError, match="no licence"):
            list(pool.map(tasks.square, range(9)))
    assert "shut down" in repr(pool)
    assert capfd.readouterr().err == ""


def test_what_cannot_be_submitted_is_no_task():
    with syncline.Pool(1) as pool:
        for wrong in ({"priority": "x"}, {"priority": 1 << 70}, {"cost": "x"}):
            with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
                pool.submit_with(abs, -1, **wrong)
        with pytest.raises(TypeError, match="timeout"):
            pool.submit(abs, 1).result("x")
    for limit in (math.inf, 1e300):
        with syncline.Pool(1, timeout=limit) as pool:
            assert pool.submit(abs, -1).result(LIMIT) == 1


def test_exceptions_of_classes_without_a_module_come_back(pool):
    pytest.importorskip("cloudpickle")

    class Local(Exception):
        pass

    def fail(*_):
        raise Local("boo")

    assert type(pool.submit(fail).exception(LIMIT)) is Local
    assert type(next(pool.map(fail, [1], return_exceptions=True))) is Local


def test_a_task_may_close_its_output(pool):
    assert [pool.submit(tasks.close_output, n).result(LIMIT) for n in range(6)] == list(range(6))
    assert list(pool.map(tasks.square, range(9))) == [n * n for n in range(9)]


def test_callbacks_have_returned_when_the_pool_ends():
    told = []

    def slowly(future):
        time.sleep(0.02)
        told.append(future.result())

    with syncline.Pool(2) as pool:
        for n in range(10):
            pool.submit(tasks.square, n).add_done_callback(slowly)
    assert sorted(told) == [n**2 for n in range(10)]


def test_a_result_that_raises_any_exception_here_is_the_error_of_its_task(pool):
    for raised in (KeyboardInterrupt, SystemExit, ArithmeticError):
        bad = pool.submit(tasks.raises_here, raised)
        assert isinstance(bad.exception(LIMIT), syncline.TaskPicklingError)
        assert pool.submit(tasks.square, 3).result(LIMIT) == 9
        (bad,) = pool.map(tasks.raises_here, [raised], return_exceptions=True)
        assert isinstance(bad, syncline.TaskPicklingError)


def test_results_wait_for_room():
    with syncline.Pool(2, memory="16M") as pool:
        made = pool.map(np.zeros, [1 << 19] * 20)
        assert [array.nbytes for array in made] == [1 << 22] * 20
        made = [pool.submit(np.zeros, 1 << 19) for _ in range(20)]
        assert [one.result(LIMIT).nbytes for one in made] == [1 << 22] * 20


def test_an_attempt_that_was_given_up_does_no_harm(pool, monkeypatch):
    # What fails in the main thread is tried in another one, which may be slow.
    monkeypatch.setattr("syncline._pickling._PATIENCE", 0.05)
    pytest.importorskip("cloudpickle")
    one, two = np.full(10000, 1.0), np.full(10000, 2.0)
    made = pool.submit(tasks.firsts, tasks.Slow(0.1), one, tasks.Slow(0.1), two, lambda: 0)
    assert made.result(LIMIT) == (1.0, 2.0)
