"""Pools of worker processes, with the interface of `concurrent.futures.Executor`."""

import atexit
import collections
import concurrent.futures as futures
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
import types
import weakref

from . import _syncline, _worker
from ._errors import ArgumentError, PoolError, TaskPicklingError
from ._futures import CANCELLED_AND_NOTIFIED, DONE, Future, flush
from ._sizes import seconds, size, told_size, whole
from ._tasks import Map, One, attempt
from ._worker import dumps

#: The least private memory of a worker.
_LEAST_MEMORY = 16 << 20

#: The pools that are open, which end when the interpreter does.
_open: weakref.WeakSet = weakref.WeakSet()


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
        self._ended = self._closed = True
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
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._pickles = weakref.WeakKeyDictionary()
        self._maps, self._finishing, self._start = weakref.WeakSet(), False, None
        start = None
        if initializer is not None:
            start = self._hand_over(self._pickle((initializer, tuple(initargs)), None))
        settings = {
            "workers": self._workers,
            "program": sys.executable,
            "arguments": _arguments(start),
            "retries": 0,
            "timeout": timeout,
            "batch": batch,
            "worker_memory": worker_memory,
            "memory": size(memory),
        }
        # The crew holds no strong reference to the pool, so that a forgotten pool ends.
        this = weakref.ref(self)
        ended = collections.deque()
        self._crew = _syncline.Crew(settings, ended, lambda: _settle(this, ended))
        self._closed = self._ended = False
        _open.add(self)

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
        pickled = self._pickle((self._function(fn), args, kwargs), parts, (args, kwargs))
        future = Future(self)
        task = One(future, (args, kwargs), pickled, parts, priority, cost)
        try:
            task.send(self)
        except BaseException:
            # No one has its future.
            if task.token is not None:
                self._crew.kill([task.token])
            raise
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
        """
        if self._pid != os.getpid():
            return
        self._closed = True
        if cancel_futures:
            for made in list(self._maps):
                made.stop(futures.CancelledError())
            for task in list(self._tasks.values()):
                task.cancel(self)
        if wait:
            # An interrupt of the wait leaves the rest to another call.
            self._finish()
        elif not self._finishing:
            self._finishing = True
            threading.Thread(target=self._finish, name="syncline-shutdown", daemon=True).start()

    def kill_workers(self):
        """End the pool at once: kill the workers, and what they have started.

        Tasks that have not ended end with a `PoolError`. (`concurrent.futures` has a method of this
        name from Python 3.14 on.)
        """
        if self._pid == os.getpid():
            self._end(gently=False)

    def _finish(self):
        # A task of a `map` is followed by the next one before it goes.
        patience = 1000
        while self._tasks:
            for token, task in list(self._tasks.items()):
                if not self._crew.wait(token, None) or self._tasks.get(token) is not task:
                    continue
                if patience > 0:
                    # Another thread is about to submit it, or to settle it.
                    patience -= 1
                    time.sleep(1e-3)
                else:
                    # An interrupt has ended its submission.
                    task.fail(self._lost())
                    self._tasks.pop(token, None)
        flush()
        self._end(gently=True)

    def _end(self, gently):
        """End the workers; the tasks that are left end with an error."""
        self._closed = True
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._crew.close(gently)
        _open.discard(self)
        for made in list(self._maps):
            made.stop(self._lost())
        for token, task in list(self._tasks.items()):
            task.fail(self._lost())
            self._tasks.pop(token, None)
        if self._start is not None:
            os.close(self._start)

    def __exit__(self, kind, error, trace):
        if kind is None:
            try:
                self.shutdown(wait=True)
            except BaseException:
                # An interrupt of the wait.
                self.kill_workers()
                raise
        else:
            self.kill_workers()
        return False

    def __del__(self):
        if not getattr(self, "_ended", True) and self._pid == os.getpid():
            self._end(gently=False)

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
        while (token := future._token) is not None and future._state not in DONE:
            left = None if deadline is None else deadline - time.monotonic()
            if self._crew.wait(token, left):
                # A task that is tried again has a new token.
                if token == future._token and future._state not in DONE:
                    future._finish(error=self._lost())
            elif deadline is not None and deadline <= time.monotonic():
                break
            else:
                # Another thread is ending the pool, and what is left of its tasks.
                time.sleep(1e-3)

    def _lost(self):
        """Return the exception for a task that is not under way, and has no outcome."""
        if self._closed:
            return PoolError("the pool was ended before the task had")
        return PoolError("an interrupt ended the submission of the task")

    def _cancel(self, future):
        token = future._token
        self._check_process()
        if token is not None and self._crew.withdraw(token):
            # The thread that drives does so too: here it is for the caller's next look.
            future._finish(state=CANCELLED_AND_NOTIFIED)

    def _kill(self, future):
        token = future._token
        self._check_process()
        if token is not None:
            self._crew.kill([token])
            # Its worker may be handed the task, and not have begun it.
            future._finish(state=CANCELLED_AND_NOTIFIED)

    def _function(self, fn):
        """Return the pickle of a function; those that are pickled by name are kept."""
        if type(fn) is not types.FunctionType:
            return self._pickle(fn, None)
        found = self._pickles.get(fn)
        if found is None:
            found = self._pickle(fn, None)
            if b"__main__" not in found and len(found) < 200:
                self._pickles[fn] = found
        return found

    def _pickle(self, value, parts, told=None):
        """Return the pickle of a value, by `cloudpickle` where it is needed and installed.

        An error shows `told`, or the value.
        """
        told = value if told is None else told

        def pickled_by(module):
            if parts is None:
                return module.dumps(value, 5), ()
            # Of each call its own: one that was given up may still be at it.
            found = []
            return dumps(value, found, module.dumps), found

        def kept(pickled, found):
            if parts is not None:
                parts[:] = found
            return pickled

        made, cause = attempt(lambda: pickled_by(pickle))
        if cause is None and b"__main__" not in made[0]:
            return _of_main(kept(*made))
        try:
            import cloudpickle
        except ImportError:
            cloudpickle = None
        if cloudpickle is None:
            if cause is not None:
                raise TaskPicklingError(
                    f"{_short(told)} cannot be pickled: {cause}; with cloudpickle installed, "
                    "lambdas and local functions can be"
                ) from cause
            if _main_data() is None:
                raise TaskPicklingError(
                    "a function or class of an interactive session, of standard input or of a "
                    "__main__.py goes to workers by cloudpickle: pip install cloudpickle"
                )
            return _worker.NEEDS_MAIN + kept(*made)
        made, cause = attempt(lambda: pickled_by(cloudpickle))
        if cause is not None:
            raise TaskPicklingError(f"{_short(told)} cannot be pickled: {cause}") from cause
        return _of_main(kept(*made))


def _of_main(pickled):
    """Return a pickle with a mark if it names what only the main module has.

    In a worker, and in a process that `multiprocessing` has started without a fork, the main module
    is one that was imported as ``__mp_main__``, and so are the names of what it has.
    """
    if b"__mp_main__" in pickled and sys.modules["__main__"].__name__ == "__mp_main__":
        return _worker.NEEDS_MAIN + pickled
    return pickled


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


def _short(value):
    try:
        text = repr(value)
    except Exception as error:
        text = f"a {type(value).__name__} (its repr raised {type(error).__name__})"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _main_data():
    """Return what a worker needs to import the main module; `None` if it cannot be imported."""
    main = sys.modules.get("__main__")
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is None:
        # Standard input has a name in angle brackets.
        if not os.path.isfile(getattr(main, "__file__", None) or ""):
            return None
    elif name.rpartition(".")[2] == "__main__":
        # That of a package, a folder or an archive, which runs whatever imports it.
        return None
    from multiprocessing import spawn

    return spawn.get_preparation_data("syncline-worker")


def _arguments(start):
    """Return the command line of a worker, behind the interpreter."""
    main = _main_data()
    if main is not None:
        # What says nothing of the module: secrets, and what the worker has anyway.
        keep = ("init_main_from_name", "init_main_from_path", "sys_path", "sys_argv", "dir")
        main = {name: main[name] for name in keep if name in main}
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; from syncline._worker import main; "
        f"main({start!r}, {main!r})"
    )
    return [*subprocess._args_from_interpreter_flags(), "-c", code]


def _settle(this, ended):
    """Give tasks their outcomes; called by the thread that drives the pool.

    An interrupt can end this anywhere. An outcome leaves the queue when it is settled, and settling
    one twice does no harm.
    """
    pool = this()
    while ended and pool is not None:
        outcome = ended[0]
        token, answer, failure = outcome if len(outcome) == 3 else (*outcome, None)
        task = pool._tasks.get(token)
        if task is not None:
            try:
                task.settle(pool, token, answer, failure)
            except BaseException as error:
                if threading.current_thread() is threading.main_thread():
                    # Of the handler of a signal; if not, it is raised in the crew's thread, too.
                    raise
                task.fail(error)
            pool._tasks.pop(token, None)
        # A callback that waits for another task of the pool may have got here before.
        if ended and ended[0] is outcome:
            ended.popleft()


@atexit.register
def _end_all():
    for pool in list(_open):
        if pool._pid == os.getpid():
            pool._end(gently=False)
    flush()
    _syncline.end()
