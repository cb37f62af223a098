"""Traces, reports and pictures."""

import json
import math
import os
import subprocess
import sys
import xml.etree.ElementTree as xml

import numpy as np
import pytest
import syncline
import tasks
from conftest import LIMIT


def smooth(u):
    return (u.n + u.s + u.e + u.w) / 4


@pytest.fixture
def recorded(tmp_path):
    with syncline.trace(tmp_path / "run.trace") as made:
        syncline.sweep(smooth, np.ones((300, 300)), iterations=20)
        with syncline.Pool(2) as pool:
            # Two workers: each of these tasks waits for the other one.
            ways = [tmp_path / "one", tmp_path / "other"]
            met = [pool.submit(tasks.meet, *ways), pool.submit(tasks.meet, *reversed(ways))]
            list(pool.map(tasks.square, range(50)))
            assert len({one.result(LIMIT) for one in met}) == 2
    return made


def test_a_trace_has_sweeps_and_workers(recorded, tmp_path):
    assert recorded.path == str(tmp_path / "run.trace")
    assert recorded.events > 0 and recorded.lost == 0
    report = recorded.report()
    assert "% work" in report.text and repr(report) == report.text
    page = report._repr_html_()
    assert page.startswith("<iframe srcdoc=") and page.count('"') == 10, "all else is escaped"
    report.save(tmp_path / "data.json")
    data = json.loads((tmp_path / "data.json").read_text())
    assert len({lane["pid"] for lane in data["lanes"]}) == 3, "this process and two workers"
    # A path is as good as the object, and the command reads it.
    assert syncline.report(recorded.path).text == report.text


def test_reports_are_saved_and_compared(recorded, tmp_path):
    report = recorded.report(recorded)
    assert "1.00 times as long" in report.text
    page = tmp_path / "compared.html"
    for _ in range(2):
        report.save(page)
    assert page.read_text().startswith("<!doctype html>")
    for name in ("spans.csv", "spans.pftrace"):
        with pytest.raises(syncline.OutputError, match="two traces"):
            report.save(tmp_path / name)
        recorded.report().save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    page.write_text("mine")
    with pytest.raises(syncline.OutputError, match="exists"):
        report.save(page)
    assert page.read_text() == "mine"
    report.save(page, overwrite=True)
    with pytest.raises(syncline.OutputError, match="does not say what to write"):
        report.save(tmp_path / "report.txt")
    with pytest.raises(syncline.FileError, match="none/report.html"):
        report.save(tmp_path / "none" / "report.html")


def test_a_temporary_trace_goes_with_its_object():
    made = syncline.trace()
    with pytest.raises(syncline.Error, match="with statement"):
        made.report()
    with made:
        syncline.sweep(smooth, np.ones((100, 100)), iterations=2)
        with pytest.raises(syncline.Error), syncline.trace():
            pass
        with pytest.raises(syncline.Error, match="is being recorded"):
            made.report()
        syncline.trace().__exit__(None, None, None)
    path = made.path
    assert os.path.exists(path) and made.report().text
    del made
    assert not os.path.exists(os.path.dirname(path))


def test_what_is_no_trace_is_told(tmp_path):
    with pytest.raises(TypeError):
        syncline.report(None)
    with pytest.raises(syncline.FileError, match="missing"):
        syncline.report(tmp_path / "missing")
    mine = tmp_path / "mine"
    mine.write_text("not a trace")
    with pytest.raises(syncline.FileError, match="mine"):
        syncline.report(mine)
    with pytest.raises(syncline.FileError, match="mine"), syncline.trace(mine):
        pass
    assert mine.read_text() == "not a trace"
    with pytest.raises(syncline.FileError), syncline.trace(tmp_path / "none" / "trace"):
        pass


def test_an_exception_ends_the_recording(tmp_path):
    with pytest.raises(ZeroDivisionError), syncline.trace(tmp_path / "a"):
        syncline.sweep(smooth, np.ones((100, 100)), iterations=2)
        raise ZeroDivisionError
    with syncline.trace(tmp_path / "b"):
        syncline.sweep(smooth, np.ones((100, 100)), iterations=2)
    assert syncline.report(tmp_path / "a", tmp_path / "b").text


def test_a_forked_copy_does_not_record():
    program = (
        "import os, syncline, numpy as np\n"
        "with syncline.trace() as made:\n"
        "    syncline.sweep(lambda u: (u.n + u.s) / 2, np.ones((90, 90)), iterations=2)\n"
        "    if os.fork() == 0:\n"
        "        raise SystemExit\n"
        "    os.wait()\n"
        "print(len(made.report().text) > 0)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT
    )
    assert (ran.stdout, ran.returncode) == ("True\n", 0), ran.stderr


def test_the_convergence_is_drawn():
    plate = np.zeros((40, 40))
    plate[0] = 100
    _, report = syncline.sweep(smooth, plate, iterations=500, until=1e-2, full_output=True)
    drawn = xml.fromstring(report._repr_svg_())
    line = next(e for e in drawn if e.tag.endswith("polyline"))
    points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[0][1] < points[-1][1], "the change becomes smaller: downwards"
    # What has no picture has none.
    _, report = syncline.sweep(smooth, plate, iterations=5, full_output=True)
    assert report._repr_svg_() is None
    with pytest.warns(syncline.ConvergenceWarning):
        plate[-1] = math.nan
        _, report = syncline.sweep(smooth, plate, iterations=5, until=0, full_output=True)
    assert report._repr_svg_() is None
