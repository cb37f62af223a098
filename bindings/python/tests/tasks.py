"""Functions that workers run. They need a module that workers can import."""

import enum
import os
import signal
import sys
import threading
import time

import numpy as np


def square(x):
    return x * x


def add(x, y=0):
    return x + y


def die(x):
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(x, at):
    if x == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def exit_at_once(x):
    os._exit(3)


def die_once(path):
    """Die, unless the file is there already."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "second"
    os.kill(os.getpid(), signal.SIGKILL)


def fail(x):
    raise LookupError(f"no {x}")


class Stubborn(Exception):
    """An exception that pickle cannot make again."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.two = two


def fail_stubbornly(_=0):
    raise Stubborn(1, 2)


def fail_with_a_lock():
    error = LookupError("locked")
    error.lock = threading.Lock()
    raise error


def leave():
    raise SystemExit(7)


def wait(seconds, value=None):
    time.sleep(seconds)
    return value


def wait_for(path, begun=None):
    """Wait until a file is there; first make the one that says that the task has begun."""
    if begun is not None:
        open(begun, "w").close()
    while not os.path.exists(path):
        time.sleep(0.01)
    return os.getpid()


def meet(own, other):
    """Run beside another such task, and not before it."""
    return wait_for(other, own)


def unpicklable():
    return lambda: 1


def pid(*_):
    return os.getpid()


def total(array):
    return float(array.sum())


def double(array):
    return 2 * array


def increment(array):
    array += 1
    return array


def fill(array, value):
    array[...] = value


def shares(array):
    return type(array).__name__, array.flags.writeable


def take(mebibytes):
    return len(np.ones(mebibytes << 17).tobytes())


def nested():
    import syncline

    with syncline.Pool(1) as pool:
        return pool.submit(square, 5).result()


STATE = None


def initialize(value):
    global STATE
    STATE = value


def state():
    return STATE


def imported(name):
    import sys

    return name in sys.modules


BUFFER = np.zeros(2000)


def reuse(value, size):
    """Return the same array each time, with other values."""
    BUFFER[:size] = value
    return BUFFER[:size]


class Counter:
    """A function with a state, which each task has for itself."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += x
        return self.calls


class Level(enum.IntEnum):
    HIGH = 1


def made(n):
    """Return values of many kinds."""
    return [None, True, n, n / 3, "text", b"bytes", 2j, Level.HIGH, (n, [n]), {n: n}][n % 10]


def stop_at_ones(n):
    if n % 3 == 1:
        raise StopIteration(n)
    return n


def fail_at(n, where, path=None):
    """Raise at one item; later ones wait for the file, if it is given."""
    if n == where:
        raise ValueError(n)
    if n > where and path is not None:
        wait_for(path)
    return n


def shared_copy(n):
    import syncline

    made = syncline.empty((100, 100))
    made[:] = n
    return made


def fails_to_start(why):
    raise ValueError(why)


def close_output(n):
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    sys.stdout.close()
    return n


class _RaisesHere:
    def __init__(self, raised):
        self.raised = raised

    def __reduce__(self):
        return _raise, (self.raised,)


def _raise(raised):
    raise raised


def raises_here(raised):
    return _RaisesHere(raised)


#: How often the main thread is still interrupted while it reads an `Interrupting`.
interrupts = 0


def interrupted():
    global interrupts
    if interrupts > 0 and threading.current_thread() is threading.main_thread():
        interrupts -= 1
        signal.raise_signal(signal.SIGINT)
    return 42


class Interrupting:
    """What is 42 where it is read, after some interrupts."""

    def __reduce__(self):
        return interrupted, ()


class Slow:
    """What takes some seconds to be pickled."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __reduce__(self):
        time.sleep(self.seconds)
        return int, ()


def firsts(_, one, __, two, ___):
    return float(one[0]), float(two[0])


def note(path, item):
    with open(path, "a") as file:
        file.write(f"{item}\n")
