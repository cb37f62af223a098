"""Traces of what threads and workers do and wait for, and reports of them."""

import html
import os
import shutil
import tempfile
import weakref

from . import _syncline
from ._errors import Error, OutputError
from ._files import path_of


class trace:
    """Record what the threads of this process, and the workers of its pools, do and wait for.

    Use it in a ``with`` statement. Recording costs little.

    Parameters
    ----------
    path : path, optional
        The file of the trace, which ``syncline report`` and `syncline.report` read. An earlier
        trace is replaced; a file with other contents is left alone [default: a temporary file,
        which goes with this object].

    Attributes
    ----------
    path : str
        The file.
    events, lost : int or None
        The events recorded, and those that were lost as the disk was too slow.

    Raises
    ------
    Error
        If this process records already.
    FileError
        If the file cannot be used.

    Notes
    -----
    Workers record from their start on: make the pool inside the block. With ``SYNCLINE_TRACE`` in
    its environment a program records by itself, from its start to its end.

    Examples
    --------
    >>> import numpy as np, syncline
    >>> with syncline.trace() as recorded:
    ...     smooth = syncline.sweep(lambda u: (u.n + u.s) / 2, np.ones((500, 500)), iterations=50)
    >>> "% work" in recorded.report().text
    True
    """

    def __init__(self, path=None):
        self._given, self.path = (
            path,
            None if path is None else os.path.abspath(path_of("path", path)),
        )
        self.events = self.lost = None
        self._records = False

    def __enter__(self):
        if self._records:
            raise Error("this trace is being recorded already")
        if self._given is None:
            folder = tempfile.mkdtemp(prefix="syncline-trace-")
            # A forked copy of this process leaves the files alone.
            weakref.finalize(self, _remove, folder, os.getpid())
            self.path = os.path.join(folder, "trace")
        _syncline.start_trace(self.path)
        self._records = True
        return self

    def __exit__(self, *_):
        if not self._records:
            return False
        self._records = False
        finished = _syncline.finish_trace()
        if finished is not None:
            path, self.events, self.lost = finished
            self.path = os.fspath(path)
        return False

    def report(self, other=None):
        """Return the `TraceReport` of this trace, or of this one compared with another."""
        return report(self, other)


def _remove(folder, owner):
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def report(trace, other=None):
    """Report where the time of a run went, and what bounds it.

    Parameters
    ----------
    trace : path or trace
        The trace of a run: of `syncline.trace`, of a command with ``--trace``, or of a program with
        ``SYNCLINE_TRACE``. That of a run which goes on is reported as far as it is written.
    other : path or trace, optional
        The trace of another run, to compare with.

    Returns
    -------
    TraceReport
        The report. A notebook shows its page: time lines, times by iteration and task, the wave
        over the matrix, the disk, messages and workers.

    Raises
    ------
    FileError
        If a trace cannot be read, or has no events.
    """
    given = [trace] if other is None else [trace, other]
    return TraceReport(_syncline.Reported([_path(one) for one in given]))


def _path(recorded):
    if not isinstance(recorded, trace):
        return path_of("trace", recorded)
    if recorded.path is None:
        raise Error("nothing is recorded yet: use the trace in a with statement")
    if recorded._records:
        raise Error("the trace is being recorded: its report is there after the with statement")
    return recorded.path


class TraceReport:
    """Where the time of a run went: see `syncline.report`.

    Attributes
    ----------
    text : str
        What bounds the run, what can be done about it, and what its threads waited for.
    """

    def __init__(self, reported):
        self._reported = reported
        self.text = "\n\n".join(reported.text())
        lengths = reported.lengths()
        if len(lengths) > 1:
            times = lengths[1] / max(lengths[0], 1e-9)
            self.text += f"\n\nThe second run took {times:.2f} times as long as the first."

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        """Show the page of the report, as a notebook does."""
        page = html.escape(self._reported.page(), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" width="100%" height="640" '
            'style="border: 1px solid #dfe7f1"></iframe>'
        )

    def save(self, path, *, overwrite=False):
        """Write the report to a file.

        Parameters
        ----------
        path : path
            The file: ``.html`` is the page, ``.json`` the data of the report, ``.csv`` the spans,
            ``.pftrace`` a trace for Perfetto.
        overwrite : bool
            Replace an existing file. A page of an earlier report is always replaced.

        Raises
        ------
        OutputError
            If the name does not say what to write, or the file exists.
        FileError
            If the file cannot be written.
        """
        path = path_of("path", path)
        if not overwrite and os.path.exists(path) and not _syncline.is_report_page(path):
            raise OutputError(f"{path} exists, and is no page of a report: overwrite=True replaces")
        self._reported.save(path)
