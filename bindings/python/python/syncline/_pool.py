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
from ._errors import PoolError, TaskPicklingError, TaskTimeoutError, WorkerError
from ._sizes import size
from ._worker import dumps

#: The pools that are open, which end when the interpreter does.
_open: weakref.WeakSet = weakref.WeakSet()

#: The time, in seconds, for which items of `map` are handed out together.
_TOGETHER = 1e-3

#: The bytes from which on an argument goes by itself.
_LARGE = 1 << 16


class Future(futures.Future):
    """The result of a task, which may not be there yet: a `concurrent.futures.Future`.

    A thread that waits for it drives the pool meanwhile.
    """

    def __init__(self, pool):
        super().__init__()
        self._pool, self._token = pool, None

    def result(self, timeout=None):
        """Return the result; wait for it at most `timeout` seconds."""
        if self._state not in _DONE:
            self._pool._wait(self, timeout)
            timeout = timeout if timeout is None else 0
        return super().result(timeout)

    def exception(self, timeout=None):
        """Return the exception of the task, or `None`; wait for it at most `timeout` seconds."""
        if self._state not in _DONE:
            self._pool._wait(self, timeout)
            timeout = timeout if timeout is None else 0
        return super().exception(timeout)

    def cancel(self):
        """Cancel the task, unless a worker has it; return whether it is cancelled."""
        if self._state != futures._base.PENDING:
            return super().cancel()
        return self._pool._cancel(self)


_DONE = (futures._base.FINISHED, futures._base.CANCELLED, futures._base.CANCELLED_AND_NOTIFIED)


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
        How often a task is tried again whose worker has died [default: never].
    timeout : float, optional
        The seconds that a task may take. The worker of a task that takes longer is killed, with
        the processes that it has started, and the task ends with a `TaskTimeoutError`.
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
    none at all for those of `syncline.empty`.

    At the end of a ``with`` block the pool waits for its tasks. If the block raises, and at the end
    of the interpreter, they are cancelled, and workers that still compute are killed. If the
    process is killed, so are its workers.

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
        self._ended = True
        if _worker.is_importing:
            raise PoolError(
                "a worker cannot make a pool while it imports the main module: put what makes it "
                'below `if __name__ == "__main__":`'
            )
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be callable")
        if max_workers is None:
            max_workers = len(os.sched_getaffinity(0))
        self._workers = _at_least("max_workers", 1, max_workers)
        self._retries = _at_least("retries", 0, retries)
        self._batch = None if batch is None else _at_least("batch", 1, batch)
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout is {timeout}, but must be more than 0")
        self._timeout = timeout
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
            "worker_memory": 0 if worker_memory is None else size(worker_memory),
            "memory": size(memory),
        }
        # The crew holds no strong reference to the pool, so that a forgotten pool ends.
        this = weakref.ref(self)
        ended = collections.deque()
        self._crew = _syncline.Crew(settings, ended, lambda: _settle(this, ended))
        self._closed = self._ended = False
        _open.add(self)

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
            Its arguments, which must not change before the task has begun.

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
        pickled = self._pickle((self._function(fn), args, kwargs), parts)
        future = Future(self)
        task = _One(future, (args, kwargs), pickled, parts, priority, cost)
        task.send(self)
        return future

    def map(self, fn, *iterables, timeout=None, chunksize=None, progress=False):
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
            The number of items that are handed out together [default: those of a millisecond].
            If an item kills its worker, only that item has the error.
        progress : bool or callable
            Show a bar, or call ``progress(done, total)``.

        Returns
        -------
        iterator
            The results. The exception of an item is raised where its result would be.
        """
        self._check()
        if chunksize is not None:
            _at_least("chunksize", 1, chunksize)
        if self._timeout is not None or self._batch is not None:
            chunksize = min(chunksize or self._batch or 1, self._batch or 1)
        items = list(zip(*iterables))
        return _Map(self, fn, items, timeout, chunksize, progress).results()

    def shutdown(self, wait=True, *, cancel_futures=False):
        """End the pool.

        Parameters
        ----------
        wait : bool
            Wait until all tasks have ended. Otherwise the pool ends when they have, in the
            background.
        cancel_futures : bool
            Cancel the tasks that no worker has begun.
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

    def _finish(self):
        # A task of a `map` is followed by the next one before it goes.
        while self._tasks:
            for task in list(self._tasks.values()):
                task.wait(self)
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
        while self._tasks:
            _, task = self._tasks.popitem()
            task.fail(self._lost())
        if self._start is not None:
            os.close(self._start)

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.shutdown(wait=True)
        elif self._pid == os.getpid():
            self._end(gently=False)
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
        deadline = None if timeout is None else time.monotonic() + timeout
        while (token := future._token) is not None and future._state not in _DONE:
            left = None if deadline is None else deadline - time.monotonic()
            if not self._crew.wait(token, left):
                if left is not None or self._closed:
                    break
            elif token == future._token and future._state not in _DONE:
                # A task that is tried again has a new token.
                future.set_exception(self._lost())

    def _lost(self):
        """Return the exception for a task that is not under way, and has no outcome."""
        if self._closed:
            return PoolError("the pool was ended before the task had")
        return PoolError("an interrupt ended the submission of the task")

    def _cancel(self, future):
        token = future._token
        self._check_process()
        if token is None or not self._crew.withdraw(token):
            return False
        self._tasks.pop(token, None)
        # Waiting threads look again when the future says so.
        cancelled = futures.Future.cancel(future)
        if cancelled:
            future.set_running_or_notify_cancel()
        self._crew.forget(token)
        return cancelled

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

    def _pickle(self, value, parts):
        """Return the pickle of a value, by `cloudpickle` where it is needed and installed."""
        keep = [] if parts is None else parts
        try:
            pickled = pickle.dumps(value, 5) if parts is None else dumps(value, keep)
            if b"__main__" not in pickled:
                return pickled
            cause = None
        except Exception as error:
            pickled, cause = None, error
        try:
            import cloudpickle
        except ImportError:
            cloudpickle = None
        if cloudpickle is None:
            if cause is not None:
                raise TaskPicklingError(
                    f"{_short(value)} cannot be pickled: {cause}; with cloudpickle installed, "
                    "lambdas and local functions can be"
                ) from cause
            if _main_data() is None:
                raise TaskPicklingError(
                    "a function or class of an interactive session goes to workers by cloudpickle: "
                    "pip install cloudpickle"
                )
            return _worker.NEEDS_MAIN + pickled
        del keep[:]
        try:
            if parts is None:
                return cloudpickle.dumps(value, 5)
            return dumps(value, keep, cloudpickle.dumps)
        except Exception as error:
            raise TaskPicklingError(f"{_short(value)} cannot be pickled: {error}") from error


def _short(value):
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _at_least(name, least, value):
    import operator

    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, but must be a whole number") from None
    if number < least:
        raise ValueError(f"{name} is {number}, but must be at least {least}")
    return number


def _main_data():
    """Return what a worker needs to import the main module; `None` if it is not a file."""
    main = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", None) is None and not hasattr(
        main, "__file__"
    ):
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


class _One:
    """A task that was submitted by itself."""

    def __init__(self, future, arguments, pickled, parts, priority, cost):
        self.future, self.pickled, self.parts = future, pickled, parts
        # Shared memory among the arguments lives until the task has ended.
        self.arguments = arguments
        self.priority, self.cost, self.tries = priority, cost, 0
        self.settled = None

    def send(self, pool):
        token = next(pool._tokens)
        pool._tasks[token] = self
        pool._crew.submit([(token, 0, self.pickled, self.parts, self.priority, self.cost)])
        # Only now: a thread that waits takes a token that is not open for one that has ended.
        self.future._token = token

    def settle(self, pool, token, answer, failure):
        if failure is not None:
            if self.settled == token:
                return  # an interrupt has ended this before
            self.settled = token
            self.tries += 1
            error = _error(failure, self.tries)
            if failure[0] in ("died", "late") and self.tries <= pool._retries:
                return self.send(pool)
            return self.fail(error)
        try:
            fine, value = pickle.loads(answer[0], buffers=answer[1])
        except Exception as error:
            return self.fail(_unreadable(error))
        if fine:
            self._end(self.future.set_result, value)
        else:
            self.fail(value)

    def fail(self, error):
        self._end(self.future.set_exception, error)

    def _end(self, set_it, value):
        # A future that was cancelled at the last moment stays cancelled.
        try:
            set_it(value)
        except futures.InvalidStateError:
            pass

    def cancel(self, pool):
        self.future.cancel()

    def wait(self, pool):
        pool._wait(self.future)


class _Chunk:
    """Some items of a `map`, as one task."""

    def __init__(self, of, items):
        self.of, self.items, self.token, self.lost = of, items, None, False

    def register(self, pool):
        self.token = next(pool._tokens)
        pool._tasks[self.token] = self

    def settle(self, pool, token, answer, failure):
        self.of.settle(self, answer, failure)

    def fail(self, error):
        self.of.fail(self.items, error)

    def cancel(self, pool):
        if self.token is not None and pool._crew.withdraw(self.token):
            pool._tasks.pop(self.token, None)
            self.fail(futures.CancelledError())
            self.of.under_way.discard(self)
            pool._crew.forget(self.token)

    def wait(self, pool):
        if pool._crew.wait(self.token, None) and pool._tasks.get(self.token) is self:
            # It is not under way, and has no outcome: an interrupt ended its submission.
            pool._tasks.pop(self.token, None)
            self.fail(pool._lost())


class _Map:
    """The items of a `map`, and their results."""

    def __init__(self, pool, fn, items, timeout, chunksize, progress):
        self.pool, self.items, self.chunksize = pool, items, chunksize
        self.function = pool._function(fn)
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.outcomes, self.tokens = [None] * len(items), [None] * len(items)
        self.ended = bytearray(len(items))
        self.next, self.under_way, self.seconds, self.tries = 0, set(), None, {}
        self.lock = threading.RLock()
        self.progress, self.failure = _bar(progress, len(items)), None
        pool._maps.add(self)
        self.more()

    def size(self):
        """Return the number of items that go together."""
        if self.chunksize is not None:
            return self.chunksize
        if self.seconds is None:
            return 1
        share = -(-(len(self.items) - self.next) // (2 * self.pool._workers))
        return max(1, min(int(_TOGETHER / max(self.seconds, 1e-9)), share))

    def more(self):
        """Submit items, as long as few are under way."""
        with self.lock:
            while self.next < len(self.items) and len(self.under_way) < 3 * self.pool._workers:
                chosen = range(self.next, min(self.next + self.size(), len(self.items)))
                if len(chosen) > 1 and any(map(_is_large, self.items[chosen[0]])):
                    chosen = chosen[:1]
                self.send([_Chunk(self, chosen)])
                # Only now: an interrupt before leaves them to the next call.
                self.next = chosen[-1] + 1

    def send(self, chunks):
        entries, sent = [], []
        try:
            for chunk in chunks:
                items, parts = [self.items[item] for item in chunk.items], []
                try:
                    pickled = self.pool._pickle((self.function, items, None), parts)
                except TaskPicklingError as error:
                    if len(chunk.items) == 1:
                        self.fail(chunk.items, error)
                    else:
                        self.again(chunk.items)
                    continue
                chunk.register(self.pool)
                self.under_way.add(chunk)
                sent.append(chunk)
                entries.append((chunk.token, chunk.token, pickled, parts, 0, 0.0))
            if entries:
                self.pool._crew.submit(entries)
        except BaseException:
            for chunk in sent:
                self.under_way.discard(chunk)
                self.pool._tasks.pop(chunk.token, None)
            raise
        # Only now: a thread that waits takes a token that is not open for one that has ended.
        for chunk in sent:
            for item in chunk.items:
                self.tokens[item] = chunk.token

    def again(self, items):
        """Submit items again, each by itself."""
        self.send([_Chunk(self, (item,)) for item in items])

    def stop(self, error):
        """Submit no more items; those that no worker has got end with an error."""
        with self.lock:
            first, self.next = self.next, len(self.items)
        self.fail(range(first, len(self.items)), error)

    def settle(self, chunk, answer, failure):
        if failure is None:
            self.take(chunk, answer)
        else:
            self.lose(chunk, failure)
        self.under_way.discard(chunk)
        self.more()

    def take(self, chunk, answer):
        pickled, parts = answer
        try:
            seconds, values, each = pickle.loads(pickled, buffers=parts)
        except Exception as error:
            return self.fail(chunk.items, _unreadable(error))
        if seconds is None:  # the items could not be read
            return self.fail(chunk.items, values)
        mean = seconds / max(1, len(chunk.items))
        if any(map(_is_large, [values[0]] if each is None and values else ())):
            self.chunksize = 1
        self.seconds = mean if self.seconds is None else (self.seconds + mean) / 2
        if each is None:
            self.end(zip(chunk.items, ((True, value) for value in values)))
            return
        at, outcomes = 0, []
        for one, count in each:
            try:
                outcomes.append(pickle.loads(one, buffers=parts[at : at + count]))
            except Exception as error:
                outcomes.append((False, _unreadable(error)))
            at += count
        self.end(zip(chunk.items, outcomes))

    def lose(self, chunk, failure):
        """Handle the death of a worker: the item that ran has the error, the others run again."""
        kind, _, _, number, item = failure
        if kind not in ("died", "late"):
            return self.fail(chunk.items, _error(failure, 1))
        if chunk.lost:
            return  # an interrupt has ended this before
        chunk.lost = True
        items = list(chunk.items)
        culprit = items.pop(item if number == chunk.token and item < len(items) else 0)
        tries = self.tries[culprit] = self.tries.get(culprit, 0) + 1
        if tries <= self.pool._retries:
            items.append(culprit)
        else:
            self.fail((culprit,), _error(failure, tries))
        if items:
            self.again(items)

    def fail(self, items, error):
        self.end((item, (False, error)) for item in items)

    def end(self, outcomes):
        for item, outcome in outcomes:
            # An item that was run twice keeps its first outcome.
            if not self.ended[item]:
                self.outcomes[item] = outcome
                self.ended[item] = 1
        progress = self.progress
        if progress is not None:
            try:
                progress(sum(self.ended), len(self.items))
            except Exception as error:
                # It is told where the results are taken, not in the thread that drives the pool.
                self.progress, self.failure = None, error

    def results(self):
        """Yield the results, in the order of the items."""
        try:
            for item in range(len(self.items)):
                self.wait(item)
                if self.failure is not None:
                    raise self.failure
                # A result is not kept longer than its user does.
                (fine, value), self.outcomes[item] = self.outcomes[item], None
                if not fine:
                    raise value
                yield value
        finally:
            # What no worker has begun is not wanted any more.
            if self.pool._pid == os.getpid() and not all(self.ended):
                self.stop(futures.CancelledError())
                for chunk in list(self.under_way):
                    chunk.cancel(self.pool)

    def wait(self, item):
        pool, crew = self.pool, self.pool._crew
        while not self.ended[item]:
            pool._check_process()
            left = None if self.deadline is None else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"item {item} has not ended in time")
            token = self.tokens[item]
            if token is None:
                # Another thread is about to submit it.
                self.more()
                time.sleep(0 if self.tokens[item] else 1e-3)
            elif crew.wait(token, left):
                if token == self.tokens[item] and not self.ended[item]:
                    self.fail((item,), pool._lost())
            elif pool._closed and not pool._tasks:
                self.fail((item,), pool._lost())


def _is_large(argument):
    return getattr(argument, "nbytes", 0) >= _LARGE


def _bar(progress, total):
    if not progress:
        return None
    if progress is not True:
        return progress
    from ._progress import Bar

    bar = Bar()

    def show(done, of):
        bar(done / max(1, of), f" {done} of {of}")
        if done == of:
            bar.end()

    return show


def _error(failure, tries):
    """Return the exception for a task without a result."""
    kind, why, _, _, _ = failure
    why = why if tries == 1 else f"{why} ({tries} tries)"
    if kind == "died":
        return WorkerError(f"the task has no result: {why}")
    if kind == "late":
        return TaskTimeoutError(f"the task has no result: {why}")
    return PoolError(f"the task has no result: {why}")


def _unreadable(error):
    failed = TaskPicklingError(f"the result cannot be unpickled here: {error!r}")
    failed.__cause__ = error
    return failed


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
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                task.fail(_unreadable(error))
            pool._tasks.pop(token, None)
        # A callback that waits for another task of the pool may have got here before.
        if ended and ended[0] is outcome:
            ended.popleft()


@atexit.register
def _end_all():
    for pool in list(_open):
        if pool._pid == os.getpid():
            pool._end(gently=False)
