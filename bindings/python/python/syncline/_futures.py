"""Futures of a pool, which no interrupt leaves half settled.

The handler of a signal, such as Ctrl-C, may raise between any two steps of the main thread's Python
code. So what must not end in its middle runs in another thread, or can be begun again.

======================  ======================  ================================================
step                    in                      an interrupt of it
======================  ======================  ================================================
the outcome is kept     the thread that drives  it is kept again; the first one counts
waiters and callbacks   that thread, or that    does not occur; before it, the outcome is kept
are told                of the pool's `Teller`  again
                        for the main thread
======================  ======================  ================================================

Those are told that were there when the outcome was kept, each once: what comes later has seen the
outcome, and `wait` would count it twice.

The `wait` and `as_completed` of `concurrent.futures`, interrupted in the main thread, may leave
with the locks of thousands of futures, or with that of the event for which they wait. The lock of a
future is taken over as soon as the main thread is in no code that uses it. The lock of an event is
waited for no longer than `_PATIENCE`: our own threads set no event for which the main thread waits
without this limit.
"""

import _thread
import collections
import concurrent.futures as futures
import queue
import sys
import threading
import time
import types
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, LOGGER, PENDING

from . import _syncline

#: The time in seconds for which a lock is waited for that is kept for moments.
_PATIENCE = 1.0

#: The time in seconds for which a `Teller` waits for more.
_LINGER = 1.0

DONE = (FINISHED, CANCELLED, CANCELLED_AND_NOTIFIED)


class Future(futures.Future):
    """The result of a task, which may not be there yet: a `concurrent.futures.Future`.

    A thread that waits for it drives the pool meanwhile.
    """

    def __init__(self, pool):
        super().__init__()
        self._condition = self._lock = _syncline.FutureLock(_is_left)
        self._pool, self._token, self._untold = pool, None, None

    def done(self):
        """Return whether the task has ended, or is cancelled."""
        return self._state in DONE

    def cancelled(self):
        """Return whether the task is cancelled."""
        return self._state in DONE and self._state != FINISHED

    def running(self):
        """Return whether the task is known to run: it is pending until it has ended."""
        return False

    def result(self, timeout=None):
        """Return the result; wait for it at most `timeout` seconds."""
        error = self.exception(timeout)
        if error is not None:
            try:
                raise error
            finally:
                del error, self  # they would be kept by the traceback that the error has
        return self._result

    def exception(self, timeout=None):
        """Return the exception of the task, or `None`; wait for it at most `timeout` seconds."""
        if self._state not in DONE:
            self._pool._wait(self, timeout)
            if self._state not in DONE:
                raise TimeoutError
        if self._state != FINISHED:
            raise futures.CancelledError
        return self._exception

    def cancel(self):
        """Cancel the task, unless a worker has it; return whether it is cancelled."""
        if self._state == PENDING:
            self._pool._cancel(self)
        return self.cancelled()

    def kill(self):
        """Cancel the task even if a worker has it; return whether it is cancelled.

        The worker that runs it is killed, with the processes that it has started, and another one
        takes its place. Other tasks go on; those of its `batch` run again.
        """
        if self._state not in DONE:
            self._pool._kill(self)
        return self.cancelled()

    def add_done_callback(self, fn):
        """Call ``fn`` with the future when it is done, or at once.

        A pool, and the interpreter, end when the callbacks have returned.
        """
        with self._lock:
            if self._state not in DONE:
                return self._done_callbacks.append(fn)
        _call(fn, self, Exception)

    def _finish(self, value=None, error=None, state=FINISHED):
        """Keep the outcome, unless there is one, and tell it."""
        # With the lock of the future: another thread that has seen no outcome is about to add
        # itself.
        with self._lock:
            self._keep(value, error, state)
        if not in_main():
            _tell(self)
        elif self._untold is not None:
            self._pool._teller.put(self)

    def _keep(self, value, error, state):
        # No calls from here on: after one, the handler of a signal may add a callback, or keep
        # another outcome.
        if self._state not in DONE:
            if self._waiters or self._done_callbacks:
                self._untold = [*self._waiters], [*self._done_callbacks]
            self._result, self._exception = value, error
            # Last: other threads look at nothing else.
            self._state = state


def _call(callback, future, caught):
    try:
        callback(future)
    except caught:
        LOGGER.exception("exception calling callback for %r", future)


def _tell(future):
    """Tell the waiters and callbacks of a future that it is done; not in the main thread."""
    with future._lock:
        untold, future._untold = future._untold, None
    if untold is None:
        return
    waiters, callbacks = untold
    for waiter in waiters:
        event = getattr(waiter, "event", None)
        if type(event) is threading.Event:
            event.__class__ = _WaitersEvent
        if future._state != FINISHED:
            waiter.add_cancelled(future)
        elif future._exception is not None:
            waiter.add_exception(future)
        else:
            waiter.add_result(future)
    for callback in callbacks:
        _call(callback, future, BaseException)


class _WaitersEvent(threading.Event):
    """The event of a waiter, which is given up once its lock is not to be had."""

    is_left = False

    def set(self):
        if self.is_left:
            return
        if not self._cond.acquire(timeout=_PATIENCE):
            self.is_left = True
            return
        try:
            self._flag = True
            self._cond.notify_all()
        finally:
            self._cond.release()


def _codes(owner):
    return {of.__code__ for of in vars(owner).values() if isinstance(of, types.FunctionType)}


#: Code that uses the locks of futures, and code called by it that waits, and has none.
_USES_LOCKS = _codes(futures.Future) | {
    futures.wait.__code__,
    futures.as_completed.__code__,
    Future.add_done_callback.__code__,
    Future._finish.__code__,
    Future._keep.__code__,
}
_WAITS = {threading.Event.wait.__code__, threading.Condition.wait.__code__}


def _is_left(owner, waited, is_circle):
    """Return whether the owner of a future's lock, for which one has waited, has left with it.

    The handler of a signal, on top of code that uses locks, may wait for the one that asks. In a
    circle of threads that wait for each other's locks the main thread has left with its own: those
    that a thread uses it acquires in one order.
    """
    frame = sys._current_frames().get(owner)
    if frame is not None and owner != threading.main_thread().ident:
        return False
    if is_circle:
        return True
    is_interrupted, above = False, None
    while frame is not None:
        code = frame.f_code
        if code in _USES_LOCKS:
            if above not in _WAITS:
                return is_interrupted and waited >= _PATIENCE
        elif code.co_filename not in _LIBRARY:
            is_interrupted = True
        frame, above = frame.f_back, code
    return True


#: The files of what code that uses locks calls.
_LIBRARY = {futures.Future.__init__.__code__.co_filename, threading.__file__}


def in_main():
    """Return whether this is the main thread."""
    # No `current_thread`, which makes a record of a thread that `threading` has not started.
    return threading.get_ident() == threading.main_thread().ident


_here = threading.local()


def is_telling():
    """Return whether this thread calls what the user gave, to whose return the end of a pool waits.

    Then this thread waits for no such return: that of another thread may wait for this one.
    """
    return getattr(_here, "is_telling", False)


def telling(call, *arguments):
    """Call a function, during which `is_telling` is true; not in the main thread."""
    before = is_telling()
    _here.is_telling = True
    try:
        call(*arguments)
    finally:
        _here.is_telling = before


def aside(call, *arguments):
    """Call a function in a thread of its own, which no interrupt reaches."""
    try:
        # No `Thread`: an interrupt of its `start` may leave half of one.
        _thread.start_new_thread(call, arguments)
    except RuntimeError:  # the interpreter ends, or has no more threads
        call(*arguments)


class Teller:
    """A thread that tells what the main thread has kept; it ends when nothing has come for long."""

    def __init__(self):
        self.todo, self.woken = collections.deque(), queue.SimpleQueue()
        self.lock, self.thread = threading.Lock(), None

    def put(self, future):
        self.todo.append(future)
        self.begin()

    def begin(self):
        if self.thread is None:
            # A thread that has not got to its begin may get company, which does no harm.
            aside(self.run)
        else:
            self.woken.put(None)

    def run(self):
        with self.lock:
            telling(self.tell)

    def tell(self):
        while self.todo:
            self.thread = threading.get_ident()
            while self.todo or self.is_woken():
                if self.todo:
                    _call(_tell, self.todo[0], BaseException)
                    self.todo.popleft()
            # What comes before this is seen by the look that follows.
            self.thread = None

    def is_woken(self):
        try:
            self.woken.get(timeout=_LINGER)
        except queue.Empty:
            return False
        return True

    def flush(self):
        """Wait until all is told; in the thread that tells, do nothing."""
        while self.todo and self.thread != threading.get_ident():
            if self.thread is None:
                self.begin()
            time.sleep(1e-3)
