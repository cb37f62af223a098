"""Uses a pool while interrupts raise in the main thread.

Every future ends with its result, every callback is called once, and a shutdown comes to its end.
Called with a seed, a number of rounds, and the base class of what is raised. Each round is
interrupted at a random moment by the handler of a signal; with no rounds, each use of a pool is
interrupted once at each of its calls and returns in Python.
"""

import builtins
import concurrent.futures as futures
import faulthandler
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time

import syncline
import tasks

LIMIT = 100
seed, rounds, base = int(sys.argv[1]), int(sys.argv[2]), getattr(builtins, sys.argv[3])
rng = random.Random(seed)
# The interrupts that are to come, or the calls and returns before the only one.
left = 0
count = 0
# The calls and returns before the interrupt; 0: it comes from a timer.
step = 0


class Interrupt(base):
    pass


def handler(signum, frame):
    """Raise, once or some times in a row, while `run` does."""
    global left
    while frame is not None and frame.f_code is not run.__code__:
        frame = frame.f_back
    if frame is not None and left > 0:
        left -= 1
        if left > 0:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 100e-6))
        raise Interrupt


def at_a_step(frame, event, value):
    """Raise at one call or return: only at these, and in loops, do handlers of signals run."""
    global left
    if event in ("call", "return"):
        left -= 1
        if left == 0:
            raise Interrupt
    return at_a_step


def run(call):
    call()


def interrupted(call, most):
    """Call a function, which an interrupt may end."""
    global left, count
    left = step or rng.choice([1, 1, 2, 3])
    try:
        if step:
            sys.settrace(at_a_step)
        else:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, most))
        run(call)
    # `concurrent.futures` makes a RuntimeError of an interrupt, now and then.
    except (Interrupt, RuntimeError):
        count += 1
    sys.settrace(None)
    signal.setitimer(signal.ITIMER_REAL, 0)


def results(pool, made, called):
    interrupted(lambda: [future.result() for future in made], 400e-6)


def callbacks(pool, made, called):
    for future in made:
        future.add_done_callback(called.append)
    interrupted(lambda: [future.result() for future in made], 400e-6)
    until = time.monotonic() + LIMIT
    while len(called) < len(made):
        assert time.monotonic() < until, (called, made)
        time.sleep(1e-3)
    assert set(called) == set(made)


def cancel(pool, made, called):
    interrupted(lambda: [future.cancel() for future in reversed(made)], 200e-6)


def kill(pool, made, called):
    interrupted(lambda: [future.kill() for future in reversed(made)], 200e-6)


def as_completed(pool, made, called):
    interrupted(lambda: list(futures.as_completed(made)), 500e-6)


def another_thread(pool, made, called):
    other = threading.Thread(target=lambda: [future.exception() for future in made])
    other.start()
    interrupted(lambda: futures.wait(made), 500e-6)
    other.join()


def items(pool, made, called):
    interrupted(lambda: list(pool.map(tasks.square, range(50))), 2e-3)


def deaths(pool, made, called):
    some = [pool.submit(tasks.exit_at_once, 1) for _ in range(2)]
    for future in some:
        future.add_done_callback(called.append)
    other = threading.Thread(target=futures.wait, args=(some,))
    other.start()
    interrupted(lambda: [future.exception() for future in some], 50e-3)
    other.join()
    assert all(isinstance(future.exception(), syncline.WorkerError) for future in some)
    until = time.monotonic() + LIMIT
    while len(called) < len(some):
        assert time.monotonic() < until, (called, some)
        time.sleep(1e-3)
    assert set(called) == set(some)


def retried(pool, made, called):
    one = retrying.submit(tasks.die_once, os.path.join(folder, f"{next(numbers)}"))
    interrupted(one.result, 50e-3)
    assert one.result(LIMIT) == "second"


def deaths_in_a_map(pool, made, called):
    def use():
        called.extend(
            pool.map(tasks.die_at, range(8), [3] * 8, chunksize=8, return_exceptions=True)
        )

    other = threading.Thread(target=use)
    other.start()
    # This thread may drive the pool.
    interrupted(pool.submit(tasks.wait, 0.05).exception, 50e-3)
    other.join()
    assert isinstance(called.pop(3), syncline.WorkerError)
    assert called == [0, 1, 2, 4, 5, 6, 7]


def shut_down(pool, most):
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    for value in range(most):
        pool.submit(tasks.square, value)
    cancels = rng.random() < 0.5
    interrupted(lambda: pool.shutdown(cancel_futures=cancels), 3e-3)
    pool.shutdown()


def round_of(use, pool):
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    made = [pool.submit(tasks.square, value) for value in range(rng.randint(1, 8))]
    use(pool, made, [])
    for value, future in enumerate(made):
        try:
            assert future.result(LIMIT) == value**2
        except futures.CancelledError:
            assert use in (cancel, kill)


def at_each_step(call, *args):
    """Call a function until it has no step that was not interrupted once."""
    global left, step
    # A destructor may have an interrupt, which is then told and goes no further.
    left, step = 0, 0
    while left <= 0:
        step += 1
        call(*args)


signal.signal(signal.SIGALRM, handler)
uses = [
    results,
    callbacks,
    cancel,
    kill,
    as_completed,
    another_thread,
    items,
    deaths,
    retried,
    deaths_in_a_map,
]
pool, retrying = syncline.Pool(2), syncline.Pool(2, retries=1)
numbers, folder = itertools.count(), tempfile.mkdtemp(dir=".")
pool.submit(tasks.square, 1).result(LIMIT)
for number in range(rounds):
    round_of(rng.choice(uses), pool)
    if number % 50 == 49:
        shut_down(pool, 20)
        pool = syncline.Pool(2)
if rounds == 0:
    for use in uses:
        at_each_step(round_of, use, pool)
    # The steps of a pool without tasks are the same each time.
    for most in [0, 8]:
        at_each_step(lambda most=most: shut_down(syncline.Pool(1), most))
pool.shutdown()
retrying.shutdown()
print(f"{count} interrupts in {rounds} rounds")
