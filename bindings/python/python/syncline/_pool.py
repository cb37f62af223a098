"""Pools of worker processes, with the interface of `concurrent.futures.Executor`.

The end of a pool is the work of a thread of its own, which one call begins. An interrupt before
that call leaves a pool that another call can end; after it the end goes on by itself. These wait
for each other:

=========================  ==========================================  ===========================
thread                     waits until                                 which comes, as
=========================  ==========================================  ===========================
`shutdown`                 no task is left: each has its outcome, and  threads drive the pool
                           its callbacks have returned
`shutdown` and             the end is over                             it waits for callbacks only
`kill_workers`
the same, in a callback    each task has its outcome; the workers      it waits for no callback
                           have ended
the end, first             the driver leaves the crew's lock           it is woken, and has no lock
                                                                       while it calls Python
the end, then              the callbacks have returned that it calls   callbacks return: their user
                           for the tasks that were left, those of the  promises that
                           `Teller`, and those of the crew's thread
a thread that submits      nothing: the crew takes a task, which is    the crew's lock orders the
                           registered by then, or refuses it           two
a thread that settles an   nothing: another thread leaves an outcome   each outcome has a `Turn`
outcome                    to the one that is at it
=========================  ==========================================  ===========================

What the user gives may call any of these: a callback, and the `__reduce__` of an argument. Nothing
of ours is held meanwhile but a `Turn`, for which no thread waits. When the interpreter ends, and
begins no threads, the thread that asks does what is else done aside.
"""

import atexit
import concurrent.futures as futures
import contextlib
import itertools
import os
import sys
import time
import weakref
from concurrent.futures._base import LOGGER

from . import _syncline, _worker
from ._errors import ArgumentError, Error, PoolError
from ._futures import CANCELLED_AND_NOTIFIED, DONE, Future, Teller, aside, in_main, in_turn
from ._pickling import pickle_of, pickle_of_function, worker_arguments
from ._sizes import seconds, size, told_size, whole
from ._tasks import Map, One

#: The least private memory of a worker.
_LEAST_MEMORY = 16 << 20

#: The time, in seconds, between two looks at what other threads do.
_LOOK = 1e-3

#: The pools that are open, which end when the interpreter does.
_open: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class Pool(futures.Executor):
    """Worker processes that run functions: a `concurrent.futures.Executor`.

    Each task ends: with its result, with its exception, or with a `WorkerError` if its worker dies.
    The other tasks, and the pool, go on.

    Parameters
    ----------
    max_workers : int, optional
        The number of workers [default: the number of processors].
    initializer : callable, optional
        Called in each worker before its first task, with ``initargs``.
    initargs : tuple, optional
        The arguments of ``initializer``.
    retries : int, optional
        How often a task is tried again whose worker has died, or was killed because of ``timeout``
        [default: never].
    timeout : float, optional
        The seconds that a task may take, without the initializer. The worker of a task that takes
        longer is killed, with the processes that it has started, and the task ends with a
        `TaskTimeoutError`.
    worker_memory : int or str, optional
        The private memory of each worker, such as ``"2G"``: more raises `MemoryError` there.
    memory : int or str, optional
        The memory for arguments and results under way [default: 1 GiB, taken as it is needed].
    batch : int, optional
        The number of small tasks that are handed out together, at most [default: those of a
        millisecond]. If a worker dies, tasks of its batch that it had finished are run again;
        ``batch=1`` forbids that.

    Raises
    ------
    PoolError
        If the pool cannot be made.

    Notes
    -----
    Workers are new interpreters; they import what the tasks need. Functions and arguments are
    pickled; if ``cloudpickle`` is installed, so are lambdas, and functions of notebooks and
    scripts. Without it a script needs the guard ``if __name__ == "__main__":`` that
    `multiprocessing` asks for. Arrays go by shared memory: one copy there, none in the worker, and
    none at all for those of `syncline.empty`. Those of results are there, too: a child that
    ``os.fork`` makes shares them with its parent, so copy what either of them changes.

    At the end of a ``with`` block the pool waits for its tasks. If the block or this wait raises,
    as after Ctrl-C, and at the end of the interpreter, they are cancelled, and workers that still
    compute are killed. If the process is killed, so are its workers. Without a ``with`` block,
    `Future.kill` ends a task that runs, and `kill_workers` all of them.

    Examples
    --------
    >>> import math, syncline
    >>> with syncline.Pool(2) as pool:
    ...     print(pool.submit(math.sqrt, 16).result())
    ...     print(sum(pool.map(math.factorial, range(5))))
    4.0
    34
    """

    def __init__(
        self,
        max_workers=None,
        *,
        initializer=None,
        initargs=(),
        retries=0,
        timeout=None,
        worker_memory=None,
        memory="1G",
        batch=None,
    ):
        # What comes one after the other: it takes no tasks, its workers have ended, all is over.
        self._closed = self._ended = self._over = True
        self._workers = 0
        if _worker.is_importing:
            raise PoolError(
                "a worker cannot make a pool while it imports the main module: put what makes it "
                'below `if __name__ == "__main__":`'
            )
        if initializer is not None and not callable(initializer):
            raise ArgumentError("initializer must be callable")
        if max_workers is None:
            max_workers = len(os.sched_getaffinity(0))
        self._workers = whole("max_workers", 1, max_workers)
        self._retries = whole("retries", 0, retries)
        self._batch = None if batch is None else whole("batch", 1, batch)
        self._timeout = timeout = None if timeout is None else seconds("timeout", timeout)
        worker_memory = 0 if worker_memory is None else size(worker_memory)
        if 0 < worker_memory < _LEAST_MEMORY:
            raise ArgumentError(
                f"worker_memory is {told_size(worker_memory)}, less than an interpreter needs"
            )
        self._tokens, self._tasks = itertools.count(1), {}
        self._pid = os.getpid()
        self._finishes, self._ends = _syncline.Turn(), _syncline.Turn()
        self._maps, self._teller, self._start = weakref.WeakValueDictionary(), Teller(), None
        memory, start = size(memory), None
        if initializer is not None:
            start = self._hand_over(pickle_of((initializer, tuple(initargs)), None))
        settings = {
            "workers": self._workers,
            "program": sys.executable,
            "arguments": worker_arguments(start),
            "retries": 0,
            "timeout": timeout,
            "batch": batch,
            "worker_memory": worker_memory,
            "memory": memory,
        }
        # The crew holds no strong reference to the pool, so that a forgotten pool ends.
        this = weakref.ref(self)
        self._outcomes = outcomes = {}
        try:
            self._crew = _syncline.Crew(settings, outcomes, lambda: _settle(this, outcomes))
        except BaseException:
            if self._start is not None:
                os.close(self._start)
            raise
        self._closed = self._ended = self._over = False
        _open[id(self)] = self

    def __repr__(self):
        state = ", shut down" if self._closed else ""
        return f"<syncline.Pool of {self._workers} workers{state}>"

    def _hand_over(self, data):
        """Put bytes where workers can read them; return the process, the file and the length."""
        self._start = os.memfd_create("syncline", os.MFD_CLOEXEC)
        with open(self._start, "wb", closefd=False) as file:
            file.write(data)
        return os.getpid(), self._start, len(data)

    def submit(self, fn, /, *args, **kwargs):
        """Run ``fn(*args, **kwargs)`` in a worker.

        Parameters
        ----------
        fn : callable
            The function.
        *args, **kwargs
            Its arguments. Arrays must not change before the task has begun: they are copied
            when it is handed out.

        Returns
        -------
        Future
            The result.

        Raises
        ------
        PoolError
            If the pool is shut down, or this process is a copy that ``fork`` has made.
        TaskPicklingError
            If the function or an argument cannot be pickled.
        """
        return self._submit(fn, args, kwargs, 0, 0.0)

    def submit_with(self, fn, /, *args, priority=0, cost=0.0, **kwargs):
        """Run a task as `submit` does, with a priority.

        Parameters
        ----------
        fn : callable
            The function.
        priority : int
            Tasks of higher priority are begun first.
        cost : float
            The expected cost, in any unit: of tasks of one priority the largest are begun first.
        *args, **kwargs
            The arguments of the function.

        Returns
        -------
        Future
            The result.
        """
        return self._submit(fn, args, kwargs, priority, cost)

    def _submit(self, fn, args, kwargs, priority, cost):
        self._check()
        parts = []
        priority, cost = whole("priority", -(1 << 31), priority, (1 << 31) - 1), _real("cost", cost)
        call = pickle_of((pickle_of_function(fn), args, kwargs), parts, (args, kwargs))
        future = Future(self)
        task = One(future, (args, kwargs), call, parts, priority, cost)
        try:
            is_sent = task.send(self)
        except BaseException:
            # No one has its future.
            self._crew.kill([task.token])
            raise
        if not is_sent:
            # It has ended while the arguments were pickled.
            raise PoolError("the pool is shut down")
        return future

    def map(
        self,
        fn,
        *iterables,
        timeout=None,
        chunksize=None,
        progress=False,
        return_exceptions=False,
    ):
        """Return an iterator over ``fn`` of the items, in their order.

        Parameters
        ----------
        fn : callable
            The function.
        *iterables : iterables
            Its arguments. They are read at once.
        timeout : float, optional
            The seconds from the call after which a result that is not there is a `TimeoutError`.
        chunksize : int, optional
            The number of items that are handed out together [default: those of fifty
            milliseconds, and fewer towards the end]. If an item kills its worker, only that item
            has the error.
        progress : bool or callable
            Show a bar, or call ``progress(done, total)``.
        return_exceptions : bool
            Return the exception of an item in place of its result, and go on.

        Returns
        -------
        iterator
            The results. The exception of an item is raised where its result would be, unless
            ``return_exceptions``; as in `concurrent.futures` the iterator ends there, and items
            that have not begun are cancelled. If Ctrl-C, or another exception that is no
            `Exception`, ends a wait for a result, the workers that run items of this call are
            killed as well.
        """
        self._check()
        if chunksize is not None:
            whole("chunksize", 1, chunksize)
        if timeout is not None:
            timeout = _real("timeout", timeout)
        if self._timeout is not None or self._batch is not None:
            chunksize = min(chunksize or self._batch or 1, self._batch or 1)
        # As `zip`, which ends with the shortest.
        rows = _read(iterables[0] if len(iterables) == 1 else zip(*iterables))
        if len(iterables) == 1:
            columns = [rows]
        else:
            columns = [[row[at] for row in rows] for at in range(len(iterables))] or [[]]
        return Map(self, fn, columns, timeout, chunksize, progress).results(return_exceptions)

    def shutdown(self, wait=True, *, cancel_futures=False):
        """End the pool.

        Parameters
        ----------
        wait : bool
            Wait until all tasks have ended. Otherwise the pool ends when they have, in the
            background.
        cancel_futures : bool
            Cancel the tasks that no worker has begun.

        Notes
        -----
        Ctrl-C ends the wait. The pool then takes no tasks, and those that are left go on: call
        `shutdown` again to wait for them, or `kill_workers` to end them.

        In a callback it waits until all tasks have an outcome and the workers have ended, but for
        no other callback. A `submit` that another thread has begun may raise a `PoolError`.
        """
        if self._pid != os.getpid():
            return
        self._closed = True
        if cancel_futures:
            for made in _living(self._maps):
                made.stop(futures.CancelledError())
            for task in list(self._tasks.values()):
                task.cancel(self)
        if wait:
            # An interrupt of the wait leaves the rest to another call.
            self._finish()
        elif not self._ended and not self._finishes.is_taken()[0]:
            aside(in_turn, self._finishes, self._finish_aside)

    def kill_workers(self):
        """End the pool at once: kill the workers, and what they have started.

        Tasks that have not ended end with a `PoolError`. (`concurrent.futures` has a method of this
        name from Python 3.14 on.)

        Notes
        -----
        Ctrl-C ends the wait alone: the workers are killed, and the callbacks are called. In a
        callback it waits for the end of the workers, but for no other callback.
        """
        if self._pid == os.getpid():
            self._end(gently=False)

    def _finish_aside(self):
        try:
            self._finish()
        except Error:
            # The interpreter ends, or the pool has failed.
            self._end(gently=False, wait=False)

    def _finish(self):
        patience, in_callback = 1000, _syncline.is_telling()
        # Once the workers have ended, the end of the pool has what is left.
        while not self._ended:
            left = self._left(in_callback)
            if not left:
                # A task of a `map` is followed by the next one before it goes, but for those that
                # another thread submits.
                others = [made.go_on_with_rest() for made in _living(self._maps)]
                if not any(others) and not self._left(in_callback):
                    break
                time.sleep(_LOOK)
            for token, task in left:
                # In a callback, not until those of the task have returned.
                if not self._crew.wait(token, _LOOK if in_callback else None):
                    # Or another thread is ending the pool.
                    time.sleep(0 if in_callback else _LOOK)
                elif self._tasks.get(token) is not task:
                    pass
                elif patience > 0:
                    # Another thread is about to submit it, or to settle it.
                    patience -= 1
                    time.sleep(_LOOK)
                else:
                    # An interrupt has ended its submission.
                    task.fail(self._lost())
                    self._tasks.pop(token, None)
        self._end(gently=True)

    def _left(self, in_callback):
        """Return the tasks for which a shutdown waits, with their tokens."""
        tasks = list(self._tasks.items())
        if in_callback:
            return [(token, task) for token, task in tasks if not self._has_ended(token, task)]
        return tasks

    def _has_ended(self, token, task):
        # Or it ends in this thread, below the caller.
        _, _, turn = self._outcomes.get(token, (None, None, None))
        return task.has_ended() or (turn is not None and turn.is_taken()[1])

    def _end(self, gently, wait=True):
        """End the workers, then the tasks that are left; wait until that is over."""
        self._closed = True
        if not self._over and not self._ends.is_taken()[0]:
            aside(in_turn, self._ends, self._end_aside, gently)
        in_callback = _syncline.is_telling()
        while wait and not (self._ended if in_callback else self._over):
            time.sleep(_LOOK)

    def _end_aside(self, gently):
        if self._over:
            return
        try:
            _syncline.telling(lambda: self._end_now(gently))
        finally:
            if self._start is not None:
                os.close(self._start)
            # Last, and not below native code: the interpreter may end from here on.
            self._over = True

    def _end_now(self, gently):
        self._crew.close(gently)
        self._ended = True
        for made in _living(self._maps):
            self._end_task(made.stop)
        for token, task in list(self._tasks.items()):
            self._end_task(task.fail)
            self._tasks.pop(token, None)
        self._teller.flush()
        self._crew.join()

    def _end_task(self, end):
        try:
            end(self._lost())
        except BaseException:
            # Of the code of a user that it calls: the other tasks have to end.
            with contextlib.suppress(BaseException):
                LOGGER.exception("exception at the end of %r", self)

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.shutdown(wait=True)
            else:
                self.kill_workers()
        except BaseException:
            # An interrupt of the wait.
            self.kill_workers()
            raise
        return False

    def __del__(self):
        if not getattr(self, "_over", True) and self._pid == os.getpid():
            # Without a wait: this thread may be in the middle of anything.
            self._end(gently=False, wait=False)

    def _check_process(self):
        if self._pid != os.getpid():
            raise PoolError("this process is a copy that fork has made: the pool is not its own")

    def _check(self):
        self._check_process()
        if self._closed:
            raise PoolError("the pool is shut down")

    def _wait(self, future, timeout=None):
        self._check_process()
        deadline = None if timeout is None else time.monotonic() + _real("timeout", timeout)
        while (token := future._token) and future._state not in DONE:
            left = None if deadline is None else deadline - time.monotonic()
            if self._crew.wait(token, left):
                # A task that is tried again has a new token.
                if token == future._token and future._state not in DONE:
                    future._finish(error=self._lost())
            elif deadline is not None and deadline <= time.monotonic():
                break
            else:
                # Another thread is ending the pool, and what is left of its tasks.
                time.sleep(_LOOK)

    def _lost(self):
        """Return the exception for a task that is not under way, and has no outcome."""
        if self._closed:
            return PoolError("the pool was ended before the task had")
        return PoolError("an interrupt ended the submission of the task")

    def _cancel(self, future):
        token = future._token
        self._check_process()
        if token and self._crew.withdraw(token):
            # The thread that drives does so too: here it is for the caller's next look.
            future._finish(state=CANCELLED_AND_NOTIFIED)

    def _kill(self, future):
        token = future._token
        self._check_process()
        while token:
            self._crew.kill([token])
            # Its worker may be handed the task, and not have begun it.
            future._finish(state=CANCELLED_AND_NOTIFIED)
            # Another thread may have submitted it again meanwhile.
            token = future._token if future._token != token else 0


def _real(name, value):
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is {value!r}, but must be a number") from None
    if number != number:
        raise ArgumentError(f"{name} is {value!r}, but must be a number")
    return number


def _read(iterable):
    """Return all items of an iterable; signals are handled meanwhile."""
    items, source = [], iter(iterable)
    while part := list(itertools.islice(source, 1 << 16)):
        items += part
    return items


def _settle(this, outcomes):
    """Give tasks their outcomes; called by threads that drive the pool.

    An interrupt can end this anywhere: an outcome leaves the dictionary when it is settled.
    """
    pool = this()
    if pool is None:
        return outcomes.clear()
    for token in list(outcomes):
        outcome = outcomes.get(token)
        if outcome is not None:
            answer, failure, turn = outcome
            # Another thread may be at it, or this one, below a callback.
            in_turn(turn, _settle_one, pool, token, answer, failure)


def _settle_one(pool, token, answer, failure):
    if token not in pool._outcomes:
        return  # another thread has just settled it
    task = pool._tasks.get(token)
    if task is not None:
        try:
            task.settle(pool, token, answer, failure)
        except BaseException as error:
            if in_main():
                # Of the handler of a signal; if not, it is raised in the crew's thread, too.
                raise
            with contextlib.suppress(BaseException):
                task.fail(error)
        pool._tasks.pop(token, None)
    pool._outcomes.pop(token, None)


def _living(referred):
    """Return the values of a dictionary with weak references, to which other threads add."""
    return [value for value in (at() for at in referred.valuerefs()) if value is not None]


@atexit.register
def _end_all():
    pools = [pool for pool in _living(_open) if not pool._over and pool._pid == os.getpid()]
    try:
        for pool in pools:
            pool._end(gently=False, wait=False)
        for pool in pools:
            pool._end(gently=False)
    finally:
        _syncline.end()
