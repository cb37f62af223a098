"""Pools in programs of their own: scripts, forks, and the end of the interpreter."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import syncline
import tasks
from conftest import LIMIT, TIER, cases, gone, seed


def run_script(tmp_path, text, **options):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env=environment,
        **{"cwd": tmp_path, "timeout": LIMIT, **options},
    )


@pytest.mark.parametrize("by_value", [True, False])
def test_functions_of_a_script(tmp_path, by_value):
    hide = "" if by_value else "import sys; sys.modules['cloudpickle'] = None"
    if by_value:
        pytest.importorskip("cloudpickle")
    ran = run_script(
        tmp_path,
        f"""
        {hide}
        import syncline
        class Point:
            def __init__(self, x): self.x = x
        def double(point): return Point(2 * point.x)
        if __name__ == "__main__":
            with syncline.Pool(2) as pool:
                print(pool.submit(double, Point(21)).result().x)
                print([p.x for p in pool.map(double, map(Point, range(4)))])
        """,
    )
    assert (ran.stdout, ran.stderr) == ("42\n[0, 2, 4, 6]\n", "")


def test_a_script_without_a_guard_is_told(tmp_path):
    ran = run_script(
        tmp_path,
        """
        import sys; sys.modules['cloudpickle'] = None
        import syncline
        def double(x): return 2 * x
        with syncline.Pool(1) as pool:
            print(pool.submit(double, 4).result())
        """,
    )
    assert ran.returncode == 1 and 'if __name__ == "__main__":' in ran.stderr


def test_the_interpreter_ends_while_a_pool_works(tmp_path):
    ran = run_script(
        tmp_path,
        """
        import syncline, tasks, sys
        pool = syncline.Pool(2)
        print(pool.submit(tasks.pid).result(), flush=True)
        for _ in range(5): pool.submit(tasks.wait, 1000)
        """,
        cwd=os.path.dirname(__file__),
    )
    assert ran.returncode == 0 and ran.stderr == ""
    gone(int(ran.stdout))


def test_output_of_tasks_is_written(tmp_path):
    ran = run_script(
        tmp_path,
        """
        import syncline
        with syncline.Pool(1) as pool:
            pool.submit(print, "from a worker").result()
            list(pool.map(print, ["one", "two"], chunksize=2))
        """,
    )
    assert ran.stdout == "from a worker\none\ntwo\n"


def test_a_forked_child_is_told(pool, tmp_path):
    assert pool.submit(tasks.square, 2).result(LIMIT) == 4
    waiting = pool.submit(tasks.wait_for, tmp_path / "go")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)
        told = b""
        for use in (
            lambda: pool.submit(tasks.square, 2),
            waiting.result,
            lambda: pool.map(abs, [1]),
        ):
            try:
                use()
            except syncline.PoolError as error:
                told += (b"fork" in str(error).encode() and b"y") or b"n"
        os.write(write, told)
        os._exit(0)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 10) == b"yyy"
    os.close(read)
    (tmp_path / "go").touch()
    assert waiting.result(LIMIT) > 0 and pool.submit(tasks.square, 3).result(LIMIT) == 9


def test_a_script_without_a_guard_and_with_cloudpickle(tmp_path):
    pytest.importorskip("cloudpickle")
    ran = run_script(
        tmp_path,
        """
        import syncline
        def double(x): return 2 * x
        with syncline.Pool(1) as pool:
            print([pool.submit(double, n).result() for n in range(3)])
        """,
    )
    assert (ran.stdout, ran.stderr) == ("[0, 2, 4]\n", "")


def test_a_forked_child_leaves_a_block(tmp_path):
    ran = run_script(
        tmp_path,
        """
        import os, sys, syncline
        with syncline.Pool(1) as pool:
            future = pool.submit(abs, -1)
            future.result()
            if os.fork() == 0:
                sys.exit(3)
            print(os.waitstatus_to_exitcode(os.wait()[1]), pool.submit(abs, -2).result())
        """,
    )
    assert ran.stdout == "3 2\n", ran


def test_an_interrupt_ends_a_wait(tmp_path):
    # The kernel gives the signal to the main thread, if that does not block it. But another thread
    # may get it, too; only the wait of `concurrent.futures` does not see that then.
    to_process = "os.kill, (os.getpid(), signal.SIGINT)"
    to_thread = "lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)"
    for send, *bodies in (
        (to_process, "pool.submit(tasks.wait, 1000).result()"),
        (to_process, "list(pool.map(tasks.wait, [1000] * 4))"),
        (to_process, "futures.wait([pool.submit(tasks.wait, 1000)])"),
        (
            to_thread,
            "pool.submit(tasks.wait, 1000).result()",
            "list(pool.map(tasks.wait, [1000] * 4))",
            "syncline.sweep(lambda u: u.n, np.ones((99, 99)), iterations=10**9)",
            "pool.shutdown()",
        ),
    ):
        ran = run_script(
            tmp_path,
            f"""
            import concurrent.futures as futures, os, signal, sys, threading, time
            import numpy as np, syncline, tasks
            with syncline.Pool(2) as pool:
                print(pool.submit(tasks.pid).result(), flush=True)
                for body in {bodies}:
                    try:
                        threading.Timer(0.3, {send}).start()
                        exec(body)
                    except KeyboardInterrupt:
                        print("interrupted", flush=True)
                raise KeyboardInterrupt
            """,
            cwd=os.path.dirname(__file__),
        )
        pid, *interrupted = ran.stdout.split()
        assert interrupted == ["interrupted"] * len(bodies), (bodies, ran)
        assert "KeyboardInterrupt" in ran.stderr, (bodies, ran)
        gone(int(pid))


def test_interrupts_of_the_reading_of_a_result(pool):
    # Each one is raised, and the result is there. The crew's thread, which no signal enters, may
    # read it before.
    future, raised = pool.submit(tasks.Interrupting), 0
    tasks.interrupts = 3
    while tasks.interrupts > 0 and not future.done():
        try:
            future.result(LIMIT)
        except KeyboardInterrupt:
            raised += 1
    assert (future.result(LIMIT), raised + tasks.interrupts) == (42, 3)
    tasks.interrupts = 0


def test_daemon_threads_outlive_nothing(tmp_path):
    # A thread that the interpreter kills inside of a sweep would be a crash.
    for work in (
        "syncline.sweep(lambda u: (u.n + u.s) / 2, np.ones((900, 900)), iterations=10**6)",
        "syncline.sweep(lambda u: (u.n + u.s) / 2, np.ones((900, 900)), iterations=10**6, "
        "output='o.npy')",
        "pool.submit(time.sleep, 1000).result()",
        "list(pool.map(time.sleep, [1000] * 4))",
    ):
        ran = run_script(
            tmp_path,
            f"""
            import threading, time
            import numpy as np, syncline

            if __name__ == "__main__":
                pool = syncline.Pool(2)
                def work():
                    try:
                        {work}
                    except syncline.Error:
                        pass
                threading.Thread(target=work, daemon=True).start()
                time.sleep(0.3)
            """,
        )
        assert (ran.returncode, ran.stderr) == (0, ""), work
        assert os.listdir(tmp_path) == ["script.py"], work


def test_a_forked_child_ends_while_threads_wait(tmp_path):
    # Its copies of the threads that wait are none.
    ran = run_script(
        tmp_path,
        """
        import os, threading, time, warnings
        import syncline

        if __name__ == "__main__":
            # Later versions of Python warn of forks beside threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            pool = syncline.Pool(1)
            future = pool.submit(time.sleep, 1)
            waits = threading.Thread(target=future.result)
            waits.start()
            time.sleep(0.2)
            if os.fork() == 0:
                raise SystemExit
            assert os.wait()[1] == 0
            waits.join()
        """,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_forked_children_end_whatever_threads_hold(tmp_path):
    # A child has copies of all locks, of which some are held by threads that it does not have.
    forks = cases(100)
    ran = run_script(
        tmp_path,
        f"""
        import os, signal, threading, warnings
        import syncline

        if __name__ == "__main__":
            warnings.simplefilter("ignore", DeprecationWarning)
            pool, stop = syncline.Pool(1), threading.Event()
            def work():
                while not stop.is_set():
                    pool.submit(abs, -1).result()
            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads:
                thread.start()
            ends = []
            for _ in range({forks}):
                if os.fork() == 0:
                    signal.alarm({LIMIT})
                    raise SystemExit(3)
                ends.append(os.waitstatus_to_exitcode(os.wait()[1]))
            stop.set()
            for thread in threads:
                thread.join()
            print(set(ends), len(ends), pool.submit(abs, -2).result())
        """,
        timeout=5 * LIMIT,
    )
    assert (ran.stdout, ran.stderr) == (f"{{3}} {forks} 2\n", "")


def test_the_interpreter_may_end_while_a_pool_is_shut_down(tmp_path):
    ran = run_script(
        tmp_path,
        """
        import syncline
        if __name__ == "__main__":
            for tasks in [1, 300, 3000]:
                pool = syncline.Pool(2)
                made = [pool.submit(abs, -1) for _ in range(tasks)]
                pool.shutdown(wait=False)
            # A thread has told this one, and waits for more when the interpreter ends.
            with syncline.Pool(1) as pool:
                for n in range(5):
                    future = pool.submit(abs, -1)
                    future.add_done_callback(lambda _: None)
                    future.result()
        """,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def interrupts(tmp_path, base, rounds):
    script, chosen = Path(__file__).with_name("interrupts.py"), seed(1)
    ran = subprocess.run(
        [sys.executable, script, str(chosen), str(rounds), base],
        capture_output=True,
        text=True,
        timeout=5 * LIMIT + rounds,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.returncode == 0, f"seed {chosen}: {ran.stderr[-5000:]}"


@pytest.mark.parametrize("base", ["KeyboardInterrupt", "Exception"])
def test_interrupts_lose_nothing(base, tmp_path):
    interrupts(tmp_path, base, cases(400))


@pytest.mark.skipif(TIER == "quick", reason="only `make test-full` interrupts each step")
def test_an_interrupt_at_each_step_loses_nothing(tmp_path):
    interrupts(tmp_path, "Exception", 0)
