#!/usr/bin/env python3
"""Measures Python's farms of processes: multiprocessing and concurrent.futures.

Reads requests from standard input, one per line, and answers each with a line of JSON, so that another program can
alternate it with others:

  cold METHOD N                          a process, from its start to its first message; it is then joined
  warm FARM N [WORKERS [METHOD]]         one task, submitted to waiting workers, until its result has arrived
  rested FARM N [WORKERS [METHOD]]       the same, 2 ms after the previous one
  map WAY TASKS CHUNK WORKERS [N [METHOD]]
                                         TASKS tasks x -> x + 1 until all results have arrived; CHUNK is a number or
                                         `default`: the choice of Pool.map, a quarter of a worker's share
  trip FORM N                            8 bytes to another process and back through a Pipe
  pickle KIND COUNT N                    dumps and loads of a list of COUNT integers, in one process
  transfer KIND COUNT N                  such a list sent through a Pipe until the other process acknowledges it
  about                                  the version of this Python

  METHOD  fork, forkserver or spawn (workers: fork by default)
  FARM    pool (multiprocessing.Pool) or executor (concurrent.futures.ProcessPoolExecutor)
  WAY     pool (Pool.map), imap (Pool.imap) or executor (ProcessPoolExecutor.map)
  FORM    bytes (send_bytes), or pickle (send of an integer)
  KIND    small (0 to 255), or random (of 64 bits, with a sign)

An answer is {"what": the line, "seconds": [one per repetition]}, or {"what": the line, "error": reason}. Between
lines no child process is left, except Python's own fork server and resource tracker, which end with this process. The
fork server is started before the first process that it starts is timed.
"""
import multiprocessing
import os
import signal
import sys
import time

# Every spawned process imports these modules again: so others are imported where they are used.

METHODS = ("fork", "forkserver", "spawn")
# The number of tasks of each worker, and of trips, that are not timed.
WARM_UP = 20
# The seconds after which a process that waits for a task is asleep.
REST = 0.002
# The limit for any wait, in seconds.
PATIENCE = 60
SET_PDEATHSIG = 1
QUICK, LONG = 5, 20


class Wrong(Exception):
    """An invalid line, or a wrong answer."""


def add_one(x):
    return x + 1


def say_hello(conn):
    conn.send(1)
    conn.close()


def echo(conn, other, form):
    """Echoes messages until the end of the connection."""
    if other is not None:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            if form == "bytes":
                conn.send_bytes(conn.recv_bytes())
            elif form == "pickle":
                conn.send(conn.recv())
            else:
                conn.send_bytes(len(conn.recv()).to_bytes(8, "little"))
    except (EOFError, ConnectionResetError, BrokenPipeError):
        pass


def tie():
    """Kills this worker when its parent dies, and leaves Ctrl-C to the parent."""
    import ctypes
    ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def timed(n, once):
    """Returns the seconds of each of n calls."""
    seconds = []
    for _ in range(n):
        start = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - start)
    return seconds


def right(is_right, what):
    if not is_right:
        raise Wrong(f"not what was sent or asked for: {what}")


def within(conn):
    """Waits for the next message, with a timeout."""
    if not conn.poll(PATIENCE):
        raise Wrong(f"no message within {PATIENCE} s")


def end(process):
    """Joins a process that has finished its work; kills it after a timeout."""
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
        raise Wrong(f"a process did not end within {PATIENCE} s")
    code = process.exitcode
    process.close()
    if code:
        raise Wrong(f"a process ended with {code}")


def start_once(context):
    """Returns the seconds from the start of a process to its first message."""
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=say_hello, args=(its,))
    start = time.perf_counter()
    process.start()
    its.close()
    try:
        within(mine)
        word = mine.recv()
        seconds = time.perf_counter() - start
    except EOFError:
        raise Wrong("a process ended without a message") from None
    finally:
        mine.close()
        end(process)
    right(word == 1, word)
    return seconds


def cold(method, n):
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        from multiprocessing import forkserver
        forkserver.ensure_running()
    return [start_once(context) for _ in range(n)]


class Farm:
    """Workers that have been started and have had tasks. On exit they are joined; after an error, killed."""

    def __init__(self, kind, workers, method):
        import ctypes  # noqa: F401  so that forked workers need not
        self.kind, self.workers = kind, workers
        context = multiprocessing.get_context(method)
        if kind == "pool":
            self.pool = context.Pool(workers, initializer=tie)
        else:
            from concurrent.futures import ProcessPoolExecutor
            self.pool = ProcessPoolExecutor(workers, mp_context=context, initializer=tie)

    def __enter__(self):
        try:
            for _ in range(WARM_UP):
                # As many at once as there are workers, so that each gets some.
                results = [self.submit(i) for i in range(self.workers)]
                right([r() for r in results] == list(range(1, self.workers + 1)), "a first task")
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, *_):
        if self.kind == "pool":
            if kind:
                self.pool.terminate()
            else:
                self.pool.close()
            self.pool.join()
        else:
            if kind:
                for process in list((self.pool._processes or {}).values()):
                    process.kill()
            self.pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, x):
        """Submits one task; returns a function that waits for its result."""
        if self.kind == "pool":
            result = self.pool.apply_async(add_one, (x,))
            return lambda: result.get(PATIENCE)
        result = self.pool.submit(add_one, x)
        return lambda: result.result(PATIENCE)


def warm(kind, n, workers, method, rest):
    with Farm(kind, workers, method) as farm:
        def once():
            right(farm.submit(41)() == 42, "a task")
        seconds = []
        for _ in range(n):
            if rest:
                time.sleep(rest)
            seconds += timed(1, once)
        return seconds


def default_chunk(tasks, workers):
    """Returns the chunk size that Pool.map chooses."""
    chunk, rest = divmod(tasks, workers * 4)
    return max(1, chunk + (rest > 0))


def tasks(way, count, chunk, workers, n, method):
    chunk = default_chunk(count, workers) if chunk == "default" else number(chunk)
    with Farm("executor" if way == "executor" else "pool", workers, method) as farm:
        def once():
            if way == "pool":
                results = farm.pool.map_async(add_one, range(count), chunksize=chunk).get(PATIENCE)
            elif way == "imap":
                results = list(farm.pool.imap(add_one, range(count), chunksize=chunk))
            else:
                results = list(farm.pool.map(add_one, range(count), chunksize=chunk, timeout=PATIENCE))
            right(len(results) == count and results[0] == 1 and results[-1] == count, "tasks")
        return timed(n, once)


class Other:
    """Another process that answers through a Pipe."""

    def __init__(self, form):
        self.conn, its = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=echo, args=(its, self.conn, form))
        self.process.start()
        its.close()

    def __enter__(self):
        return self.conn

    def __exit__(self, *_):
        self.conn.close()
        end(self.process)


def trip(form, n):
    payload = b"\1\2\3\4\5\6\7\10" if form == "bytes" else 0x0102030405060708
    with Other(form) as conn:
        send, receive = (conn.send_bytes, conn.recv_bytes) if form == "bytes" else (conn.send, conn.recv)

        def once():
            send(payload)
            right(receive() == payload, "a trip")
        timed(WARM_UP, once)
        return timed(n, once)


def integers(kind, count):
    if kind == "small":
        return [i & 255 for i in range(count)]
    import random
    source = random.Random(7)
    return [source.getrandbits(64) - (1 << 63) for _ in range(count)]


def pickled(kind, count, n):
    from multiprocessing.reduction import ForkingPickler
    values = integers(kind, count)

    def once():
        # Like Connection.send and Connection.recv.
        return ForkingPickler.loads(ForkingPickler.dumps(values))
    right(once() == values, "pickled integers")
    return timed(n, once)


def transfer(kind, count, n):
    values = integers(kind, count)
    with Other("length") as conn:
        def once():
            conn.send(values)
            within(conn)
            right(int.from_bytes(conn.recv_bytes(), "little") == count, "a transfer")
        once()
        return timed(n, once)


def about():
    import platform
    return {"python": platform.python_version(), "cpus": len(os.sched_getaffinity(0))}


def number(word):
    if not word.isdecimal() or int(word) < 1:
        raise Wrong(f"not a number above 0: {word}")
    return int(word)


def one_of(word, words):
    if word not in words:
        raise Wrong(f"not one of {', '.join(words)}: {word}")
    return word


def measure(line):
    """Executes a request line; returns the members of the answer."""
    what, *words = line.split()

    def word(i, otherwise=None):
        if i < len(words):
            return words[i]
        if otherwise is None:
            raise Wrong("the line is too short")
        return otherwise

    if what == "about":
        return about()
    if what == "cold":
        seconds = cold(one_of(word(0), METHODS), number(word(1)))
    elif what in ("warm", "rested"):
        seconds = warm(one_of(word(0), ("pool", "executor")), number(word(1)), number(word(2, "2")),
                       one_of(word(3, "fork"), METHODS), REST if what == "rested" else 0)
    elif what == "map":
        seconds = tasks(one_of(word(0), ("pool", "imap", "executor")), number(word(1)), word(2), number(word(3)),
                        number(word(4, "1")), one_of(word(5, "fork"), METHODS))
    elif what == "trip":
        seconds = trip(one_of(word(0), ("bytes", "pickle")), number(word(1)))
    elif what == "pickle":
        seconds = pickled(one_of(word(0), ("small", "random")), number(word(1)), number(word(2)))
    elif what == "transfer":
        seconds = transfer(one_of(word(0), ("small", "random")), number(word(1)), number(word(2)))
    else:
        raise Wrong(f"no measurement is called {what}; see --help")
    return {"seconds": seconds}


def answers():
    import json
    for line in sys.stdin:
        line = line.strip()
        if not line:
            continue
        answer = {"what": line}
        try:
            answer.update(measure(line))
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}" if not isinstance(error, Wrong) else str(error)
        print(json.dumps(answer), flush=True)


def table(n):
    """Measures everything once, and prints medians and extremes."""
    import statistics
    count, ints = 10000, 100000
    rows = [(f"cold {m} {n}", 1, 1e3, "ms") for m in METHODS]
    rows += [(f"warm {f} {100 * n}", 1, 1e6, "us") for f in ("pool", "executor")]
    rows += [(f"warm pool {100 * n} 2 {m}", 1, 1e6, "us") for m in ("forkserver", "spawn")]
    rows += [(f"map {way} {count} {chunk} 2 {max(1, n // 4)}", count, 1e6, "us per task")
             for way in ("pool", "imap", "executor") for chunk in ("1", "default")]
    rows += [(f"trip {form} {500 * n}", 1, 1e6, "us") for form in ("bytes", "pickle")]
    rows += [(f"{what} {kind} {ints} {n}", ints, 1e9, "ns per integer")
             for what in ("pickle", "transfer") for kind in ("small", "random")]
    here = about()
    print(f"Python {here['python']}, {here['cpus']} processors\n")
    print(f"{'':38}{'median':>10}{'least':>10}{'most':>10}")
    failed = 0
    for line, per, scale, unit in rows:
        try:
            values = [s / per * scale for s in measure(line)["seconds"]]
            told = "".join(f"{value:10.2f}" for value in (statistics.median(values), min(values), max(values)))
            print(f"{line:38}{told}  {unit}", flush=True)
        except Exception as error:
            failed = 1
            print(f"{line:38}{type(error).__name__}: {error}", flush=True)
    return failed


def main():
    import argparse
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="measure everything and print a table")
    parser.add_argument("--quick", action="store_true", help="with --all: a quarter of the repetitions")
    parser.add_argument("--hold", type=int, default=0, metavar="MIB", help="hold this much memory, all of it touched")
    options = parser.parse_args()
    held = bytearray(b"1") * (options.hold << 20)  # noqa: F841
    # SIGTERM ends, and joins, any running process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if options.all:
            return table(QUICK if options.quick else LONG)
        answers()
    except BrokenPipeError:
        # The reader is gone. Nothing more must be flushed at exit.
        sys.stdout = None
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
