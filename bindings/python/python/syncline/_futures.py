"""Futures of a pool, which no interrupt leaves half settled.

The handler of a signal, such as Ctrl-C, may raise between any two steps of the main thread's Python
code. So what must not end in its middle runs in another thread, or can be begun again.

======================  ======================  ================================================
step                    in                      an interrupt of it
======================  ======================  ================================================
the outcome is kept     the thread that drives  it is kept again; the first one counts
waiters and callbacks   that thread, or that    does not occur; before it, the outcome is kept
are told                of `_Teller` for the    again
                        main thread
======================  ======================  ================================================

Those are told that were there when the outcome was kept, each once: what comes later has seen the
outcome, and `wait` would count it twice.

The `wait` and `as_completed` of `concurrent.futures`, interrupted in the main thread, may leave
with the locks of futures, or with that of the event for which they wait. So these locks are waited
for no longer than `_patience`. Our own threads set no event for which the main thread waits
without this limit.
"""

import _thread
import concurrent.futures as futures
import os
import queue
import threading
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, LOGGER, PENDING

#: The time in seconds for which a lock is waited for that is kept for moments. Each lock that was
#: not to be had halves it: where one was left, so were others. A thread that holds one and is not
#: run by the kernel for longer than the least would wait for ever.
_patience = 1.0
_LEAST_PATIENCE = 0.01

DONE = (FINISHED, CANCELLED, CANCELLED_AND_NOTIFIED)


class Future(futures.Future):
    """The result of a task, which may not be there yet: a `concurrent.futures.Future`.

    A thread that waits for it drives the pool meanwhile.
    """

    def __init__(self, pool):
        super().__init__()
        self._lock = self._condition._lock
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
        if threading.current_thread() is threading.main_thread():
            with self._lock:
                self._keep(value, error, state)
            if self._untold is not None:
                _teller.put(self)
        else:
            is_held = _acquire(self._lock)
            try:
                self._keep(value, error, state)
            finally:
                if is_held:
                    self._lock.release()
            _tell(self)

    def _keep(self, value, error, state):
        # No calls from here on: after one, the handler of a signal may add a callback, or keep the
        # outcome of another future.
        untold = None
        if self._waiters or self._done_callbacks:
            untold = [*self._waiters], [*self._done_callbacks]
        with _keeping:
            if self._state not in DONE:
                self._result, self._exception, self._untold = value, error, untold
                # Last: other threads look at nothing else.
                self._state = state


def _call(callback, future, caught):
    try:
        callback(future)
    except caught:
        LOGGER.exception("exception calling callback for %r", future)


def _tell(future):
    """Tell the waiters and callbacks of a future that it is done; not in the main thread."""
    with _keeping:
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


def _acquire(lock):
    """Acquire a lock, unless it is not to be had; return whether it was."""
    global _patience
    is_held = lock.acquire(timeout=_patience)
    if not is_held:
        _patience = max(_patience / 2, _LEAST_PATIENCE)
    return is_held


class _WaitersEvent(threading.Event):
    """The event of a waiter, which is given up once its lock is not to be had."""

    is_left = False

    def set(self):
        if self.is_left:
            return
        if not _acquire(self._cond):
            self.is_left = True
            return
        try:
            self._flag = True
            self._cond.notify_all()
        finally:
            self._cond.release()


class _Teller:
    """A thread that tells, begun when it is needed."""

    def __init__(self):
        self.todo, self.thread = queue.SimpleQueue(), None

    def put(self, future):
        self.todo.put(future)
        if self.thread is None:
            # No `Thread`: an interrupt of its `start` may leave half of one. An interrupt here may
            # leave two threads, which does no harm.
            self.thread = _thread.start_new_thread(self.run, ())

    def run(self):
        while True:
            future = self.todo.get()
            if isinstance(future, _thread.LockType):
                future.release()
            else:
                _call(_tell, future, BaseException)

    def flush(self):
        """Wait until what was put before is told."""
        if self.thread not in (None, threading.get_ident()):
            # No `Event`, whose inner lock an interrupt may leave: this thread would wait for it.
            told = _thread.allocate_lock()
            told.acquire()
            self.todo.put(told)
            # In short waits: a signal that another thread gets does not end one.
            while not told.acquire(timeout=0.05):
                pass


def _begin():
    global _keeping, _teller
    #: Held for moments, by no code that waits or that an interrupt can leave without its release.
    _keeping = threading.Lock()
    _teller = _Teller()


_begin()
os.register_at_fork(after_in_child=_begin)


def flush():
    """Wait until the callbacks of all futures that have ended have returned."""
    _teller.flush()
