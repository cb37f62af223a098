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
given up after `_PATIENCE`, or later if the main thread is in such code.
"""

import _thread
import collections
import concurrent.futures as futures
import contextlib
import inspect
import math
import os
import queue
import sys
import threading
import time
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, LOGGER, PENDING

from . import _syncline

#: The times in seconds after which a lock counts as left: while the handler of a signal waits for
#: the pool, and while the main thread does something else in code that uses locks.
_PATIENCE, _HANDLERS_PATIENCE = 1.0, 60.0

#: The time in seconds between two looks at a lock.
_LOOK = 0.05

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
        # The token is 0 until the task is submitted.
        self._pool, self._token, self._untold = pool, 0, None

    def __repr__(self):
        # Without the lock: the handler of a signal may ask while another thread has it.
        state = self._state.lower()
        if state == FINISHED.lower():
            error = self._exception
            state += f" returned {type(self._result).__name__}" if error is None else ""
            state += "" if error is None else f" raised {type(error).__name__}"
        return f"<Future at {id(self):#x} state={state}>"

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
        if self._is_done_or_calls(fn):
            _call(fn, self, Exception)

    def _is_done_or_calls(self, fn):
        with self._lock:
            if self._state not in DONE:
                self._done_callbacks.append(fn)
                return False
        return True

    def _finish(self, value=None, error=None, state=FINISHED):
        """Keep the outcome, unless there is one, and tell it."""
        self._keep(value, error, state)
        if not in_main():
            _tell(self)
        elif self._untold is not None:
            self._pool._teller.put(self)

    def _keep(self, value, error, state):
        # With the lock of the future: another thread that has seen no outcome is about to add
        # itself. No calls in the block: after one, the handler of a signal may add a callback, or
        # keep another outcome.
        with self._lock:
            if self._state not in DONE:
                if self._waiters or self._done_callbacks:
                    self._untold = [*self._waiters], [*self._done_callbacks]
                self._result, self._exception = value, error
                # Last: other threads look at nothing else.
                self._state = state

    def _take_untold(self):
        with self._lock:
            untold, self._untold = self._untold, None
        return untold


def _call(callback, future, caught):
    try:
        callback(future)
    except caught:
        with contextlib.suppress(caught):  # of what the user has added to the log
            LOGGER.exception("exception calling callback for %r", future)


def _tell(future):
    """Tell the waiters and callbacks of a future that it is done; not in the main thread."""
    untold = future._take_untold()
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


#: The files of this package.
_PACKAGE = os.path.join(os.path.dirname(__file__), "")


def _patience(frame, uses, waits):
    """Return how long to wait for what a thread has locked; `None` if it is in no code that does.

    It is longer than any use. The handler of a signal, on top of that code, may wait for the pool,
    and so for the thread that asks; or for a user's answer.
    """
    patience, last = _HANDLERS_PATIENCE, None
    while frame is not None:
        code = frame.f_code
        if code in uses:
            if last is None or last.f_code not in waits:
                return patience
        elif code.co_filename.startswith(_PACKAGE):
            patience = _PATIENCE
        frame, last = frame.f_back, frame
    # The thread runs meanwhile. A generator that it has left has no outer frame any more.
    is_unknown = last is not None and last.f_code.co_flags & inspect.CO_GENERATOR
    return _HANDLERS_PATIENCE if is_unknown else None


def _codes(*functions):
    return {function.__code__ for function in functions}


#: Code that uses the lock of an event, and code that uses those of futures; code called by the
#: latter that waits without a lock.
_USES_EVENTS = _codes(
    threading.Event.wait,
    threading.Event.clear,
    threading.Condition.wait,
)
_USES_LOCKS = _codes(
    futures.wait,
    futures.as_completed,
    Future._is_done_or_calls,
    Future._keep,
    Future._take_untold,
)
_WAITS = _codes(threading.Event.wait, threading.Condition.wait)


def _is_left(owner, waited, is_circle):
    """Return whether a thread has left with the lock of a future, and with all that it has.

    In a circle of threads that wait for each other's locks the main thread has left with one, as
    those that a thread uses it acquires in one order; or the handler of a signal waits for a lock.
    Then, and after the patience, a `wait` below the handler may miss an outcome that comes before
    it goes on.
    """
    frame = sys._current_frames().get(owner)
    if frame is None:
        return True, True
    if owner != threading.main_thread().ident:
        return False, False
    longest = _patience(frame, _USES_LOCKS, _WAITS)
    is_left = longest is None or waited >= longest
    return is_left or is_circle, is_left


class _WaitersEvent(threading.Event):
    """The event of a waiter, which is given up if the main thread has left with its lock."""

    is_left = False

    def set(self):
        # Looks, and not the time: between two of them a thread can go on that holds the lock.
        looks = 0
        while not self.is_left and not self._cond.acquire(timeout=_LOOK):
            looks += 1
            self.is_left = looks * _LOOK >= self.patience()
        if self.is_left:
            return
        try:
            self._flag = True
            self._cond.notify_all()
        finally:
            self._cond.release()

    def patience(self):
        """Return how long to wait for the lock of the event."""
        main = threading.main_thread().ident
        frames = sys._current_frames()
        if any(self.is_used_in(frames[thread]) for thread in frames if thread != main):
            return math.inf  # no interrupt makes it leave
        # Not if the main thread waits itself: then it has no lock of an event.
        leaf = frames.get(main)
        is_waiting = leaf is not None and leaf.f_code in _WAITS
        longest = None if is_waiting else _patience(leaf, _USES_EVENTS, ())
        return max(longest or 0, _PATIENCE)

    def is_used_in(self, frame):
        while frame is not None:
            if frame.f_code in _USES_EVENTS and frame.f_locals.get("self") in (self, self._cond):
                return True
            frame = frame.f_back
        return False


def in_main():
    """Return whether this is the main thread."""
    # No `current_thread`, which makes a record of a thread that `threading` has not started.
    return threading.get_ident() == threading.main_thread().ident


def in_turn(turn, call, *arguments):
    """Call a function unless a call has the turn, of any thread; return whether it was called.

    What has to be done after each of many events needs a note of it, which is made before the call,
    and a loop: ``while noted() and in_turn(...)``. The call that has the turn then looks again.
    """
    with turn as is_mine:
        # No loop here: an interrupt at the end of one that ends the block would keep the turn.
        if is_mine:
            call(*arguments)
    return is_mine


def aside(call, *arguments):
    """Call a function in a thread of its own, which no interrupt reaches; here if none begins."""
    try:
        # No `Thread`: an interrupt of its `start` may leave half of one.
        _thread.start_new_thread(call, arguments)
    except RuntimeError:  # the interpreter ends, or has no more threads
        call(*arguments)


class Teller:
    """A thread that tells what the main thread has kept; it ends when nothing has come for long.

    At the end of the interpreter, which begins no threads, the thread that asks tells.
    """

    def __init__(self):
        self.todo, self.woken = collections.deque(), queue.SimpleQueue()
        self.turn, self.thread = _syncline.Turn(), None

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
        while self.todo and in_turn(self.turn, self.tell):
            pass

    def tell(self):
        self.thread = threading.get_ident()
        try:
            while self.todo or self.is_woken():
                if self.todo:
                    # Not the wait: the end of the interpreter may come in it, and native code
                    # below it would be a crash.
                    _syncline.telling(lambda: _tell(self.todo[0]))
                    self.todo.popleft()
        finally:
            # What comes before this is seen by the look of `run`.
            self.thread = None

    def is_woken(self):
        try:
            self.woken.get(timeout=0 if in_main() else _LINGER)
        except queue.Empty:
            return False
        return True

    def flush(self):
        """Wait until all is told; in the thread that tells, do nothing."""
        while self.todo and self.thread != threading.get_ident():
            if self.thread is None:
                self.begin()
            time.sleep(1e-3)
