"""Pools of scripts, modules and children of `multiprocessing`, with functions that these define."""

import os
import re
import subprocess
import sys

import pytest
from conftest import LIMIT

#: A script that uses a pool in children of `multiprocessing`, with what it has defined itself.
_IN_CHILDREN = """
import multiprocessing, sys
import syncline
class Point:
    def __init__(self, x): self.x = x
def double(point): return Point(2 * point.x)
def nested(x):
    with syncline.Pool(1) as pool: return pool.submit(double, Point(x)).result()
def initialize(point):
    global START
    START = point
def started(x): return Point(START.x + x)
def use(found):
    with syncline.Pool(1, initializer=initialize, initargs=(Point(1),)) as pool:
        point = pool.submit(double, Point(21)).result()
        more = list(pool.map(double, [point, point]))
        more += [pool.submit(nested, 3).result(), pool.submit(started, 5).result()]
        found.append([type(p) is Point and p.x for p in [point, *more]])
def child(queue):
    found = []
    try: use(found)
    except BaseException as error: found.append(repr(error))
    queue.put(found)
if __name__ == "__main__":
    for method in sys.argv[1:]:
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(method, *queue.get(timeout=100))
        process.join()
"""


@pytest.mark.parametrize("start", ["a script.py", "-m"])
def test_pools_in_children_of_multiprocessing(tmp_path, start):
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "cloudpickle.py").write_text("raise ImportError")
    if start == "-m":
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "module.py").write_text(_IN_CHILDREN)
        start = ["-m", "folder.module"]
    else:
        (tmp_path / start).write_text(_IN_CHILDREN)
        start = [start]
    path = os.pathsep.join([str(hide), *sys.path])
    ran = subprocess.run(
        [sys.executable, *start, "spawn", "forkserver"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        timeout=LIMIT,
    )
    right = "[42, 84, 84, 6, 6]"
    assert (ran.stdout, ran.stderr) == (f"spawn {right}\nforkserver {right}\n", "")


@pytest.mark.full("the quick tier has no cloudpickle")
def test_pools_in_children_of_multiprocessing_with_cloudpickle(tmp_path):
    pytest.importorskip("cloudpickle")
    script = tmp_path / "script.py"
    lambdas = _IN_CHILDREN.replace("double, Point(21)", "lambda point: double(point), Point(21)")
    script.write_text(lambdas)
    ran = subprocess.run(
        [sys.executable, script, "spawn", "forkserver"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=LIMIT,
    )
    right = "[42, 84, 84, 6, 6]"
    assert (ran.stdout, ran.stderr) == (f"spawn {right}\nforkserver {right}\n", "")


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("raise ValueError('not twice')", "TaskPicklingError", "import the main module.*not twice"),
        ("raise SystemExit('not here')", "TaskPicklingError", "import the main module.*not here"),
        ("syncline.Pool(1)", "PoolError", 'if __name__ == "__main__"'),
        ("del double", "TaskPicklingError", "unpickle the task.*double"),
    ],
)
def test_a_main_module_that_cannot_be_imported_is_the_error_of_each_task(
    tmp_path, text, kind, told
):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; sys.modules['cloudpickle'] = None\n"
        "import syncline\n"
        "def double(x): return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    with syncline.Pool(1) as pool:\n"
        "        for _ in range(2): print(repr(pool.submit(double, 1).exception()))\n"
        "        print(*map(repr, pool.map(double, [1], return_exceptions=True)))\n"
        f"else: {text}\n"
    )
    ran = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=LIMIT,
    )
    lines = ran.stdout.splitlines()
    assert len(lines) == 3 and ran.stderr == "", ran
    for line in lines:
        assert line.startswith(kind) and re.search(told, line), line


def test_functions_of_standard_input_need_cloudpickle():
    text = (
        "import sys; sys.modules['cloudpickle'] = None\n"
        "import syncline\n"
        "def double(x): return 2 * x\n"
        "with syncline.Pool(1) as pool:\n"
        "    try: pool.submit(double, 1)\n"
        "    except syncline.TaskPicklingError as error: print(error)\n"
    )
    path = os.pathsep.join(sys.path)
    ran = subprocess.run(
        [sys.executable, "-"],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=LIMIT,
    )
    assert "pip install cloudpickle" in ran.stdout and ran.stderr == ""
