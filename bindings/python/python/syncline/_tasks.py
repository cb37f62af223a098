"""The tasks of a pool: single ones, and the chunks of a `map`.

A task is submitted with a token, under which the pool keeps it until it is settled. A task that is
tried again has a new token. An interrupt can end the methods anywhere: what was not submitted then
ends with an error, and an outcome is settled again.

==============  ====================================  ==========================================
what ended      a single task                         a chunk of items
==============  ====================================  ==========================================
an answer       the result, or the exception          those of each item
its withdrawal  a cancelled future                    so its items
a worker died   tried again, or a `WorkerError`       so the item that ran; the others run again
the pool        a `PoolError`                         the same for all items
==============  ====================================  ==========================================
"""

import concurrent.futures as futures
import itertools
import os
import pickle
import time

from . import _syncline
from ._errors import PoolError, TaskPicklingError, TaskTimeoutError, WorkerError
from ._futures import CANCELLED_AND_NOTIFIED, DONE, in_main, in_turn
from ._pickling import attempt, pickle_of, pickle_of_function
from ._progress import Bar

#: The time, in seconds, for which items of `map` are handed out together.
_TOGETHER = 50e-3

#: The time, in seconds, by which the workers may end one after the other.
_LEAST = 200e-6

#: The bytes of arguments, or of results, that are handed out together.
_TOGETHER_BYTES = 1 << 22

#: The bytes from which on an argument goes by itself.
_LARGE = 1 << 16


class One:
    """A task that was submitted by itself."""

    def __init__(self, future, arguments, pickled, parts, priority, cost):
        self.future, self.pickled, self.parts = future, pickled, parts
        # Shared memory among the arguments lives until the task has ended.
        self.arguments = arguments
        self.priority, self.cost, self.tries = priority, cost, 0
        self.token, self.settled = 0, 0

    def send(self, pool):
        """Submit the task; return whether the pool takes tasks."""
        token = next(pool._tokens)
        entry = (token, 0, self.pickled, self.parts, self.priority, self.cost)
        try:
            self.token = token
            pool._tasks[token] = self
            is_sent = pool._crew.submit([entry])
        except BaseException:
            # Unless it is under way: an interrupt may come after its submission.
            if pool._crew.wait(token, 0):
                pool._tasks.pop(token, None)
            raise
        if not is_sent:
            pool._tasks.pop(token, None)
            return False
        # Only now: a thread that waits takes a token that is not open for one that has ended. The
        # task may have ended, and been submitted again by another thread.
        if self.future._token < token:
            self.future._token = token
        if self.tries > 0 and self.future._state in DONE:
            # It was killed meanwhile.
            pool._crew.kill([token])
        return True

    def settle(self, pool, token, answer, failure):
        if failure is not None:
            if failure[0] == "cancelled":
                return self.future._finish(state=CANCELLED_AND_NOTIFIED)
            if self.settled < token:
                self.settled = token
                self.tries += 1
            elif self.token > token and self.token in pool._tasks:
                # It was tried again before an interrupt.
                if self.future._token < self.token:
                    self.future._token = self.token
                return
            # It may have been killed.
            may = failure[0] in ("died", "late") and self.future._state not in DONE
            if not (may and self.tries <= pool._retries and self.send(pool)):
                self.fail(_error(failure, max(1, self.tries)))
            return
        outcome, error = attempt(lambda: pickle.loads(answer[0], buffers=answer[1]), BaseException)
        if error is not None:
            self.fail(unreadable(error))
        elif outcome[0]:
            self.future._finish(outcome[1])
        else:
            self.fail(outcome[1])

    def has_ended(self):
        return self.future._state in DONE

    def fail(self, error):
        self.future._finish(error=error)

    def cancel(self, pool):
        self.future.cancel()


class Chunk:
    """Some items of a `map`, as one task."""

    def __init__(self, of, items):
        self.of, self.items, self.token = of, items, 0
        # If its worker has died: the item that ran, and those that run again.
        self.culprit = self.rest = None

    def register(self, pool):
        self.token = next(pool._tokens)
        pool._tasks[self.token] = self

    def settle(self, pool, token, answer, failure):
        self.of.settle(self, answer, failure)

    def has_ended(self):
        return self.of.ended.find(0, self.items.start, self.items.stop) < 0

    def fail(self, error):
        self.of.fail(self.items, error)
        self.of.go_on(self)

    def cancel(self, pool):
        pool._crew.withdraw(self.token)


class Map:
    """The items of a `map`, and their results.

    Arguments are kept in columns, one for each iterable: a slice of a column is pickled faster than
    as many tuples. Items go one by one until one has ended, which tells how long they take; then
    together those of `_TOGETHER`, but not more than a share of those that are left, so that the
    workers end at about the same time (guided self-scheduling).
    """

    def __init__(self, pool, fn, columns, timeout, chunksize, progress):
        self.pool, self.columns, self.chunksize = pool, columns, chunksize
        self.count = len(columns[0])
        self.function = pickle_of_function(fn)
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.values, self.errors = [None] * self.count, {}
        # The token of an item is 0 until it is submitted.
        self.tokens, self.ended = [0] * self.count, bytearray(self.count)
        self.next, self.under_way, self.tries = 0, set(), {}
        # The first of the items that are not wanted any more, and their error.
        self.cut, self.cut_error = self.count, None
        # Of the last chunks, each of which counts half as much as the next one.
        self.seconds, self.measured = 0.0, 0.0
        # The bytes of an item: the most that were seen.
        self.bytes = 1
        # Whether items that run are not wanted, either.
        self.is_killed = False
        self.turn, self.is_wanted = _syncline.Turn(), False
        self.progress_turn, self.told = _syncline.Turn(), 0
        self.bar, self.failure = Bar() if progress is True else None, None
        self.progress = self.show if self.bar is not None else progress or None
        pool._maps[id(self)] = self
        try:
            self.more()
        except BaseException:
            # No one has the iterator.
            self.kill()
            raise

    def size(self):
        """Return the number of items that go together."""
        if self.chunksize is not None:
            return self.chunksize
        if not self.measured:
            return 1
        rate = self.measured / max(self.seconds, 1e-9)
        share = -(-(self.count - self.next) // (2 * self.pool._workers))
        together = max(int(rate * _LEAST), min(int(rate * _TOGETHER), share))
        return max(1, min(together, _TOGETHER_BYTES // self.bytes))

    def weigh(self, items, pickled, parts):
        """Take note of the bytes of some items."""
        total = len(pickled) + sum(memoryview(part).nbytes for part in parts)
        self.bytes = max(self.bytes, total // len(items))

    def more(self):
        """Submit items, as long as few are under way."""
        self.is_wanted = True
        # The thread that submits items already goes on until no more are wanted. It may be this
        # one, in what the items are made of or in the handler of a signal.
        while self.is_wanted and in_turn(self.turn, self.send_some):
            pass

    def send_some(self):
        self.is_wanted = False
        # One for each worker, until it is known how long an item takes.
        most = (3 if self.measured or self.chunksize else 1) * self.pool._workers
        while self.next < self.cut and len(self.under_way) < most:
            chosen = range(self.next, min(self.next + self.size(), self.count))
            if len(chosen) > 1 and any(_is_large(column[self.next]) for column in self.columns):
                chosen = chosen[:1]
            self.send([Chunk(self, chosen)])
            # Only now: an interrupt before leaves them to the next call.
            self.next = chosen.stop

    def go_on_with_rest(self):
        """Submit items that no call is about to submit; return whether another thread is.

        An interrupt of their submission may have left them.
        """
        self.more()
        is_taken, is_mine = self.turn.is_taken()
        return is_taken and not is_mine and self.next < self.cut

    def send(self, chunks):
        (chunks, failed), entries = self.pickled(chunks), []
        # Together, and submitted at once: a token that is not open is one of a task that has ended.
        try:
            for chunk, call, parts in chunks:
                chunk.register(self.pool)
                self.under_way.add(chunk)
                entries.append((chunk.token, chunk.token, call, parts, 0, 0.0))
            is_sent = not entries or self.pool._crew.submit(entries)
        except BaseException:
            for chunk, _, _ in chunks:
                self.under_way.discard(chunk)
                self.pool._tasks.pop(chunk.token, None)
            raise
        if not is_sent:
            self.stop(self.pool._lost())
            for chunk, _, _ in chunks:
                self.under_way.discard(chunk)
                self.fail(chunk.items, self.pool._lost())
                self.pool._tasks.pop(chunk.token, None)
            for items, error in failed:
                self.fail(items, error)
            return
        # Only now: a thread that waits takes a token that is not open for one that has ended.
        for chunk, _, _ in chunks:
            items = chunk.items
            tokens = [chunk.token] * len(items)
            # Its worker may have died, and another thread have submitted the items again.
            if chunk.rest is None:
                self.tokens[items.start : items.stop] = tokens
        if self.cut_error is not None:
            # Another thread has stopped it meanwhile.
            self.take_back([chunk for chunk, _, _ in chunks])
        # Last: what is told of these may wait for the others.
        for items, error in failed:
            if len(items) == 1:
                self.fail(items, error)
            else:
                self.again(items)

    def pickled(self, chunks):
        """Return chunks with their pickles, and with errors the items that have none."""
        made, failed = [], []
        for chunk in chunks:
            items, parts = chunk.items, []
            columns = [column[items.start : items.stop] for column in self.columns]
            try:
                call = pickle_of((self.function, columns, None), parts, columns)
            except BaseException as error:
                if in_main() and not isinstance(error, TaskPicklingError):
                    # Of the handler of a signal; if not, it is raised in the crew's thread, too.
                    raise
                failed.append((items, error))
                continue
            self.weigh(items, call, parts)
            made.append((chunk, call, parts))
        return made, failed

    def again(self, items):
        """Submit items again, each by itself, unless they are not wanted any more."""
        chunks = [Chunk(self, range(item, item + 1)) for item in items]
        if self.cut_error is None:
            return self.send(chunks)
        for chunk in chunks:
            self.fail(chunk.items, self.cut_error)

    def stop(self, error):
        """Submit no more items; those that no worker has got end with an error."""
        # Without a lock: the thread that submits items may run what waits for this one. It looks
        # at `cut_error` after each submission, and at `cut` before the next one.
        if self.cut_error is None:
            self.cut_error = error
        self.cut = min(self.cut, self.next)
        # What is not wanted any more is no progress.
        self.progress = None
        if self.bar is not None:
            self.bar.end()

    def give_up(self, call):
        """Call `cancel` or `kill`, unless all items have ended; twice if an interrupt ends it."""
        if self.pool._pid == os.getpid() and self.ended.find(0) >= 0:
            try:
                call()
            except BaseException:
                call()
                raise

    def cancel(self):
        """Submit no more items, and take back those that no worker has begun."""
        self.stop(futures.CancelledError())
        self.take_back(list(self.under_way))

    def kill(self):
        """Submit no more items, and end those that are under way."""
        self.is_killed = True
        self.stop(futures.CancelledError())
        self.take_back(list(self.under_way))

    def take_back(self, chunks):
        if self.is_killed:
            self.pool._crew.kill([chunk.token for chunk in chunks])
        else:
            for chunk in chunks:
                chunk.cancel(self.pool)

    def settle(self, chunk, answer, failure):
        if failure is None:
            self.take(chunk, answer)
        else:
            self.lose(chunk, failure)
        self.go_on(chunk)

    def go_on(self, chunk):
        self.under_way.discard(chunk)
        self.more()

    def take(self, chunk, answer):
        pickled, parts = answer
        self.weigh(chunk.items, pickled, parts)
        outcome, error = attempt(lambda: pickle.loads(pickled, buffers=parts), BaseException)
        if error is not None:
            return self.fail(chunk.items, unreadable(error))
        seconds, values, marked = outcome
        if seconds is None:  # the items could not be read
            return self.fail(chunk.items, values)
        if _is_large(values[0]):
            self.chunksize = 1
        self.seconds = self.seconds / 2 + seconds
        self.measured = self.measured / 2 + len(values)
        errors = {}
        for at in marked:
            fine, value = _read_item(values[at])
            values[at] = value
            if not fine:
                errors[at] = value
        self.end(chunk.items, values, errors)

    def lose(self, chunk, failure):
        """Handle the death of a worker: the item that ran has the error, the others run again."""
        kind, _, _, number, item = failure
        if kind == "cancelled" or self.is_killed:
            return self.fail(chunk.items, futures.CancelledError())
        if kind not in ("died", "late"):
            return self.fail(chunk.items, _error(failure, 1))
        if chunk.rest is None:
            rest = list(chunk.items)
            culprit = rest.pop(item if number == chunk.token and item < len(rest) else 0)
            tries = self.tries.get(culprit, 0) + 1
            if tries <= self.pool._retries:
                rest.append(culprit)
            # No calls from here on: an interrupt has all of it done again, or nothing.
            self.tries[culprit], chunk.culprit, chunk.rest = tries, culprit, rest
        # After an interrupt, not those that were submitted again before.
        left = [
            one for one in chunk.rest if not self.ended[one] and self.tokens[one] <= chunk.token
        ]
        if left:
            self.again(left)
        # Last: what is told of it may wait for the others.
        if chunk.culprit not in chunk.rest:
            error = _error(failure, self.tries[chunk.culprit])
            self.fail(range(chunk.culprit, chunk.culprit + 1), error)

    def fail(self, items, error):
        self.end(items, [error] * len(items), dict.fromkeys(range(len(items)), error))

    def end(self, items, values, errors):
        """Keep the outcomes of a range of items, of which `errors` are exceptions, by position."""
        first, last = items.start, items.stop
        if self.ended.find(1, first, last) < 0:
            self.values[first:last] = values
            self.errors.update((first + at, error) for at, error in errors.items())
            # Last: an interrupt before has them kept again.
            self.ended[first:last] = bytes([1]) * len(values)
        else:
            # An item that was run twice keeps its first outcome.
            for at, value in enumerate(values):
                if not self.ended[first + at]:
                    self.values[first + at] = value
                    if at in errors:
                        self.errors[first + at] = value
                    self.ended[first + at] = 1
        # What it calls may wait for other items, which end meanwhile.
        while self.progress is not None and self.told < self.ended.count(1):
            if not in_turn(self.progress_turn, self.tell):
                return

    def tell(self):
        progress, self.told = self.progress, self.ended.count(1)
        try:
            if progress is not None:
                progress(self.told, self.count)
        except BaseException as error:
            if in_main() and not isinstance(error, Exception):
                raise
            # It is told where the results are taken, not in the thread that drives the pool.
            self.progress, self.failure = None, error

    def show(self, done, total):
        """Show how many items have ended."""
        self.bar(done / max(1, total), f" {done} of {total}")
        if done == total:
            self.bar.end()

    def results(self, with_exceptions=False):
        """Yield the results, in the order of the items; exceptions are raised, or yielded too."""
        item = 0
        try:
            while item < self.count:
                self.wait(item)
                if self.failure is not None:
                    raise self.failure
                error = self.cut_error if item >= self.cut else self.errors.get(item)
                if error is not None and not with_exceptions:
                    raise error
                if item >= self.cut:
                    yield from itertools.repeat(error, self.count - item)
                    return
                # Those that are there, up to the next error.
                last = self.ended.find(0, item)
                last = self.count if last < 0 else last
                if self.errors and not with_exceptions:
                    last = min([last, *(error for error in list(self.errors) if error > item)])
                run, self.values[item:last] = self.values[item:last], [None] * (last - item)
                item = last
                # A result is not kept longer than its user does.
                run.reverse()
                yield from map(run.pop, itertools.repeat(-1, len(run)))
        except GeneratorExit:
            self.give_up(self.cancel)
            raise
        except BaseException as error:
            # An interrupt may come from the keyboard again.
            self.give_up(self.cancel if isinstance(error, Exception) else self.kill)
            raise

    def wait(self, item):
        pool, crew = self.pool, self.pool._crew
        while not self.ended[item] and item < self.cut:
            pool._check_process()
            left = None if self.deadline is None else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"item {item} has not ended in time")
            token = self.tokens[item]
            if token == 0:
                # Another thread is about to submit it.
                self.more()
                time.sleep(0 if self.tokens[item] else 1e-3)
            elif crew.wait(token, left):
                if token == self.tokens[item] and not self.ended[item]:
                    self.fail(range(item, item + 1), pool._lost())
            elif pool._closed and not pool._tasks:
                self.fail(range(item, item + 1), pool._lost())
            elif left is None:
                # Another thread is ending the pool.
                time.sleep(1e-3)


def _is_large(argument):
    return getattr(argument, "nbytes", 0) >= _LARGE


def _error(failure, tries):
    """Return the exception for a task without a result."""
    kind, why, _, _, _ = failure
    # The question is one for programs in Rust.
    why = why.replace("does the program serve the pool before all else?", "their output says why")
    why = why.replace("found the farm with a higher bound of memory", "give the pool more memory=")
    why = why if tries == 1 else f"{why} ({tries} tries)"
    if kind == "died":
        return WorkerError(f"the task has no result: {why}")
    if kind == "late":
        return TaskTimeoutError(f"the task has no result: {why}")
    return PoolError(f"the task has no result: {why}")


def _read_item(pickled):
    outcome, error = attempt(lambda: pickle.loads(pickled), BaseException)
    return outcome if error is None else (False, unreadable(error))


def unreadable(error):
    failed = TaskPicklingError(f"the result cannot be unpickled here: {error!r}")
    failed.__cause__ = error
    return failed
