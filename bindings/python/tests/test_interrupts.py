"""What goes on after Ctrl-C has ended a call of a pool, and what ends it."""

import concurrent.futures as futures
import os
import signal
import threading
import time

import pytest
import syncline
import tasks
from conftest import LIMIT, gone, there


def interrupted(call, *begun):
    """Call a function, which Ctrl-C ends when some files are there."""

    def interrupt():
        for path in begun:
            there(path)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call()
        time.sleep(LIMIT)
    thread.join()


def test_an_interrupted_wait_leaves_the_task_to_the_caller(tmp_path):
    begun, never = tmp_path / "begun", tmp_path / "never"
    with syncline.Pool(1) as pool:
        task = pool.submit(tasks.wait_for, never, begun)
        interrupted(task.result, begun)
        assert not task.done() and not task.cancel()
        assert task.kill() and task.cancelled() and task.kill()
        with pytest.raises(futures.CancelledError):
            task.result(LIMIT)
        # Another worker has its place.
        assert pool.submit(tasks.square, 3).result(LIMIT) == 9
        done = pool.submit(tasks.square, 4)
        assert done.result(LIMIT) == 16 and not done.kill() and done.result() == 16


def test_an_interrupted_map_ends_its_items_alone(tmp_path):
    begun, never, go = (tmp_path / name for name in ("begun", "never", "go"))
    other = tmp_path / "other"
    with syncline.Pool(2, retries=3) as pool:
        kept = pool.submit(tasks.wait_for, go, other)
        there(other)
        items = [(never, begun), *((never, tmp_path / f"later{n}") for n in range(5))]
        interrupted(lambda: list(pool.map(tasks.wait_for, *zip(*items, strict=True))), begun)
        # A worker is free, and no other item has begun.
        assert pool.submit(tasks.square, 3).result(LIMIT) == 9
        assert list(pool.map(tasks.square, range(9))) == [n * n for n in range(9)]
        assert not list(tmp_path.glob("later*"))
        go.touch()
        assert kept.result(LIMIT) > 0


def test_an_interrupt_at_the_end_of_a_block_ends_its_tasks(tmp_path):
    begun, never = tmp_path / "begun", tmp_path / "never"
    made = []

    def use():
        with syncline.Pool(1) as pool:
            made.append(pool.submit(tasks.wait_for, never, begun))
            made.append(pool)

    interrupted(use, begun)
    assert isinstance(made[0].exception(LIMIT), syncline.PoolError)
    assert "shut down" in repr(made[1])


def test_a_killed_task_is_not_tried_again(tmp_path):
    begun, never = tmp_path / "begun", tmp_path / "never"
    with syncline.Pool(1, retries=5) as pool:
        one = pool.submit(tasks.wait_for, never, begun)
        later = pool.submit(tasks.square, 2)
        there(begun)
        begun.unlink()
        assert later.kill() and one.kill()
        assert pool.submit(tasks.square, 3).result(LIMIT) == 9
        assert later.cancelled() and one.cancelled() and not begun.exists()


def test_workers_are_killed(tmp_path):
    begun, never = tmp_path / "begun", tmp_path / "never"
    pool = syncline.Pool(1)
    pids = [pool.submit(tasks.pid).result(LIMIT)]
    made = [pool.submit(tasks.wait_for, never, begun) for _ in range(3)]
    there(begun)
    pool.kill_workers()
    for task in made:
        assert isinstance(task.exception(LIMIT), syncline.PoolError)
    gone(pids[0])
    pool.kill_workers()
    with pytest.raises(syncline.PoolError):
        pool.submit(tasks.square, 1)


class _NeverKills:
    """A crew that kills no worker, as if each had ended just before."""

    def __init__(self, crew):
        self.crew = crew

    def __getattr__(self, name):
        return getattr(self.crew, name)

    def kill(self, tokens):
        pass


def test_a_killed_task_whose_worker_has_died_is_not_tried_again(tmp_path):
    begun = tmp_path / "begun"
    with syncline.Pool(1, retries=5) as pool:
        task = pool.submit(tasks.wait_for, tmp_path / "never", begun)
        there(begun)
        (worker,) = pool._crew.pids()
        pool._crew = _NeverKills(pool._crew)
        assert task.kill()
        begun.unlink()
        os.kill(worker, signal.SIGKILL)
        assert pool.submit(tasks.square, 3).result(LIMIT) == 9
    assert task.cancelled() and not begun.exists()
