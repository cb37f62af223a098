"""Maps of pools: `syncline.Pool.map`."""

import concurrent.futures as futures
import functools
import math
import threading
import time

import pytest
import syncline
import tasks
from conftest import LIMIT


def test_map(pool, tmp_path):
    assert list(pool.map(tasks.square, range(1000))) == [n * n for n in range(1000)]
    assert list(pool.map(tasks.add, range(10), range(5))) == [2 * n for n in range(5)]
    assert list(pool.map(tasks.square, range(100), chunksize=7)) == [n * n for n in range(100)]
    assert list(pool.map(tasks.square, [])) == []
    told = []
    assert sum(pool.map(tasks.square, range(9), progress=lambda *at: told.append(at))) == 204
    assert told[-1] == (9, 9)
    results = pool.map(tasks.fail, range(3))
    with pytest.raises(LookupError, match="no 0"):
        next(results)
    with pytest.raises(TimeoutError):
        list(pool.map(tasks.wait_for, [tmp_path / "go"] * 2, timeout=0.05))
    (tmp_path / "go").touch()
    mixed = pool.map(math.sqrt, [4, -1, 9], chunksize=3)
    assert next(mixed) == 2
    with pytest.raises(ValueError):
        next(mixed)


@pytest.mark.parametrize("chunksize", [None, 1, 10, 100])
def test_a_death_in_a_map_is_the_error_of_its_item_alone(pool, chunksize):
    list(pool.map(tasks.square, range(100)))
    results = pool.map(tasks.die_at, range(100), [37] * 100, chunksize=chunksize)
    assert [next(results) for _ in range(37)] == list(range(37))
    with pytest.raises(syncline.WorkerError):
        next(results)


def outcomes(pool, function, *items, **options):
    """Return the results and the types of exceptions of a map."""
    from syncline._tasks import Map

    columns = [list(column) for column in items]
    made = Map(pool, function, columns, None, options.get("chunksize"), None)
    until = time.monotonic() + LIMIT
    while not all(made.ended):
        assert time.monotonic() < until
        time.sleep(0.001)
    return [type(x) if at in made.errors else x for at, x in enumerate(made.values)]


def test_items_of_a_chunk_keep_their_kinds(pool):
    kinds = [tasks.made(n) for n in range(40)]
    for chunksize in (None, 1, 40):
        results = list(pool.map(tasks.made, range(40), chunksize=chunksize))
        assert results == kinds
        assert [type(x) for x in results] == [type(x) for x in kinds]
    errors = [StopIteration if n % 3 == 1 else n for n in range(9)]
    assert outcomes(pool, tasks.stop_at_ones, range(9), chunksize=9) == errors


def test_items_go_together_as_far_as_their_bytes_are_few(pool):
    from syncline import _tasks

    items = [bytes(60_000)] * 400
    made = _tasks.Map(pool, len, [items], None, None, None)
    assert list(made.results()) == [60_000] * 400
    assert 60_000 <= made.bytes < 61_000
    assert made.size() <= _tasks._TOGETHER_BYTES // 60_000


@pytest.mark.parametrize("chunksize", [None, 3, 50])
def test_all_other_items_have_results(pool, chunksize):
    expected = [syncline.WorkerError if n == 11 else n for n in range(50)]
    assert outcomes(pool, tasks.die_at, range(50), [11] * 50, chunksize=chunksize) == expected


def test_timeouts():
    # The initializer imports what the tasks need, which is not counted. The timeout is long enough
    # for short tasks on a busy machine, and passes once: the late ones run side by side.
    with syncline.Pool(3, timeout=4, initializer=tasks.initialize, initargs=(0,)) as pool:
        late = pool.submit(tasks.wait, 1000)
        assert outcomes(pool, tasks.wait, [0, 1000, 0], [1, 2, 3]) == [
            1,
            syncline.TaskTimeoutError,
            3,
        ]
        with pytest.raises(syncline.TaskTimeoutError, match="longer"):
            late.result(LIMIT)
        assert pool.submit(tasks.square, 3).result(LIMIT) == 9


def test_a_pool_waits_for_a_map_that_is_not_taken(tmp_path):
    with syncline.Pool(2) as pool:
        made = pool.map(tasks.wait, [0.002] * 60, range(60))
    assert list(made) == list(range(60))
    with pytest.raises(RuntimeError), syncline.Pool(2) as pool:
        made = pool.map(tasks.wait, [1000] * 60)
        raise RuntimeError("the pool ends")
    with pytest.raises(syncline.PoolError, match="ended"):
        list(made)
    pool = syncline.Pool(1)
    made = pool.map(tasks.wait, [0.01] * 10_000)
    pool.shutdown(cancel_futures=True)
    with pytest.raises(futures.CancelledError):
        list(made)


@pytest.mark.parametrize("size", [10, 1000])
@pytest.mark.parametrize("chunksize", [None, 4])
def test_results_are_those_of_their_item(pool, size, chunksize):
    results = list(pool.map(tasks.reuse, range(40), [size] * 40, chunksize=chunksize))
    assert [int(one[0]) for one in results] == list(range(40))
    some = [pool.submit(tasks.reuse, n, size) for n in range(40)]
    assert [int(one.result(LIMIT)[0]) for one in some] == list(range(40))
    assert list(pool.map(tasks.Counter(), [1] * 9, chunksize=1)) == [1] * 9


def test_exceptions_in_place_of_results(pool):
    results = list(pool.map(tasks.fail_at, range(30), [7] * 30, return_exceptions=True))
    assert [type(x) for x in results] == [ValueError if n == 7 else int for n in range(30)]
    results = list(pool.map(tasks.die_at, range(30), [9] * 30, return_exceptions=True))
    assert isinstance(results[9], syncline.WorkerError)
    assert results[:9] + results[10:] == [n for n in range(30) if n != 9]


def test_a_bar_counts_what_has_ended(pool, capsys, tmp_path):
    list(pool.map(tasks.square, range(50), progress=True))
    assert "50 of 50" in capsys.readouterr().err
    # Later items end after the error is taken, so that the bar has ended before.
    arguments = range(500), [3] * 500, [tmp_path / "go"] * 500
    results = pool.map(tasks.fail_at, *arguments, progress=True, chunksize=1)
    with pytest.raises(ValueError):
        list(results)
    (tmp_path / "go").touch()
    pool.shutdown()
    assert "500 of 500" not in capsys.readouterr().err


def test_progress_may_use_the_pool(pool):
    seen = []

    def progress(done, total):
        seen.append(list(pool.map(abs, range(3))) + [pool.submit(abs, -done).result(LIMIT)])

    assert list(pool.map(abs, range(40), progress=progress, chunksize=1)) == list(range(40))
    assert seen


def test_items_run_once_whatever_waits_meanwhile(pool, tmp_path):
    # Items that cannot be pickled are told while others are submitted, and what is called then
    # waits for another task.
    items = [threading.Lock() if item % 5 == 4 else item for item in range(100)]
    log = tmp_path / "log"
    log.touch()
    made = pool.map(
        functools.partial(tasks.note, str(log)),
        items,
        return_exceptions=True,
        progress=lambda done, total: pool.submit(abs, 1).result(),
    )
    told = [type(one) is syncline.TaskPicklingError for one in made]
    assert told == [item % 5 == 4 for item in range(100)]
    assert sorted(map(int, log.read_text().split())) == [n for n in range(100) if n % 5 != 4]
