"""Sweeps: the same update of every point of an array, many times, inside a memory bound."""

import atexit
import math
import os
import time
import warnings
from collections.abc import Mapping

from . import _syncline
from ._errors import ArgumentError, ConvergenceWarning, Error, FileError
from ._files import Stage, path_of, remove
from ._job import Job
from ._progress import Bar
from ._report import Plan, Report, not_finite

# A thread that sweeps when the interpreter ends is waited for.
atexit.register(_syncline.end)


def sweep(
    kernel,
    field,
    coefficients=(),
    *,
    iterations,
    until=None,
    exact_stop=False,
    memory=None,
    output=None,
    overwrite=False,
    resume=False,
    boundary=None,
    nodata=None,
    directions=None,
    dtype=None,
    chunks=None,
    threads=None,
    depth=None,
    progress=False,
    full_output=False,
):
    """Update every point of an array, many times, and return the result.

    The result has the bits of the plain loops, whatever the memory and the number of threads.
    Arrays on file may be larger than memory: many iterations are done in one pass over them.

    Parameters
    ----------
    kernel : Kernel, callable, str or path
        The update of a point: see `syncline.kernel`; or the path of a description (``.toml``). A
        plain function is traced as a kernel; if it cannot be, it is called by the interpreter point
        by point, with a `SlowKernelWarning`; its own source must name the neighbours that it reads.
    field : array, tuple or dict of arrays
        What is updated: a numpy array, a `numpy.memmap`, a path (``.npy``, ``.zarr``, ``.tif``),
        an ``xarray.DataArray``, an array of dask or zarr, a variable of h5py or netCDF4, or a
        dataset of rasterio; of one, two or three dimensions. It is not changed. A variable in a
        ``.zarr`` of xarray has the path of the store, or that of the store and its name. A kernel
        of several fields takes a tuple in the order of its parameters, or a dict or an
        ``xarray.Dataset`` with their names.
    coefficients : array, sequence or dict of arrays
        The other arrays of the kernel, of the shape of the field, in the order of its parameters
        or by their names. A ``DataArray`` has the dimensions of the field, in any order, and its
        coordinates.
    iterations : int
        The number of iterations, at most.
    until : float, optional
        Stop when no point changes by more than this. One that stays infinite, or NaN, has not
        changed; one that becomes NaN has changed by more.
    exact_stop : bool
        Stop exactly at the iteration that reaches ``until``, not at the end of its pass.
    memory : int or str, optional
        The memory for buffers, and for results that are not on file, such as ``"2G"`` [default:
        80 % of what is available]. Arrays that are passed in memory are not counted.
    output : path, or several, optional
        The file of the result: ``.npy``, ``.zarr`` or ``.tif``. It has its name only when it is
        complete. A link is followed. A file or a store that an array is known to be read from is
        never the output, and neither is a path inside it. A ``DataArray`` goes to a ``.zarr`` with
        its coordinates and attributes, and to a ``.tif`` with its CRS and transform, as far as it
        tells them. Several fields have a list, in the order in which they are given, or a dict by
        name; only outputs in ``.npy``, in one folder, can be resumed then.
    overwrite : bool
        Replace an existing output, a ``.zarr`` with all that is in it, and what an interrupted run
        has left.
    resume : bool
        Go on where an interrupted run into this output ended, or add iterations to its result;
        begin if there is neither. The kernel, its functions and the arrays must be the same.
    boundary : str, number, tuple or dict, optional
        What is beyond the edges, for all axes, or a tuple, the first axis first, or a dict by axis,
        its number or ``"planes"``, ``"rows"``, ``"columns"`` (``{1: "periodic"}``): ``"fixed"``
        (points that lack a neighbour keep their values; the default, also called ``"none"``),
        ``"nearest"``, ``"reflect"`` (as ``numpy.pad``; Dask's, of depth 1, is ``"nearest"`` here),
        a number, or, along the first and the last axis of explicit kernels, ``"periodic"``. A point
        of which one neighbour is beyond a ``"fixed"`` edge stays, whatever is beyond the other
        axes.
    nodata : number or dict, optional
        The value of the field, or of each array, that means no data [default: what the arrays say,
        as their attributes ``_FillValue`` or ``missing_value``, the nodata of a GeoTIFF, or the
        fill value of a mask; unless the kernel is a text, which says it itself]. Such points stay,
        and their neighbours see their own value in place of it. A point that becomes this number
        has no data from then on. Masked points get this number, and are refused without one.
    directions : str or sequence of str, optional
        The directions of the iterations of a kernel that reads new values, in turn, such as
        ``["south-east", "north-west"]``: from the first row and column to the last, and back. The
        others are ``"south-west"`` and ``"north-east"``. In three dimensions each has ``down-``
        (planes from the first to the last) or ``up-`` (from the last to the first) before it, such
        as ``["down-south-east", "up-north-west"]``.
    dtype : dtype, optional
        Convert the fields to this type first. A whole type drops fractions; a number that it does
        not hold is refused.
    chunks : tuple of int, optional
        The chunks of an output in ``.zarr``.
    threads : int, optional
        The number of threads [default: the number of processors].
    depth : int, optional
        The number of iterations in a pass, at most [default: the fastest].
    progress : bool or callable
        Show a bar, or call ``progress(done, step, steps)`` ten times a second or more often, and
        at the end, with the fraction done, and the number of the pass and of all passes.
    full_output : bool
        Return a tuple of the result and a `Report`.

    Returns
    -------
    array, tuple, dict or Dataset
        The result, of the kind of the field. A path gives a numpy array, and with ``output`` a
        read-only ``numpy.memmap`` of the file; the path itself if that is no ``.npy``. A
        ``DataArray``, also one in a store of xarray that is given by its path, comes back with its
        coordinates and those attributes that are true of the result, and is read from a ``.npy`` or
        ``.zarr`` output when it is used; into a ``.tif`` it gives the path, and a ``Dataset`` gives
        a dict of paths. A masked array gives a masked array, but a plain one on file.

    Raises
    ------
    ArgumentError, KernelError, ArrayError, MemoryBoundError, FileError, OutputError
        All of them are `syncline.Error`. Nothing has been run then, except if a file fails.
        Points without data that no number tells, and packed numbers, are an `ArrayError`.
    KeyboardInterrupt
        On Ctrl-C, within a fraction of a second; nothing is left. With ``resume=True``, passes that
        are complete stay beside the output, in a folder with its name and ``.syncline``. They also
        stay if a file fails, or the process is killed. While a ``.zarr`` or ``.tif`` is made of a
        complete result, that is kept in a ``.npy``, which a note of the exception names.

    Warns
    -----
    ConvergenceWarning
        If ``until`` was not reached.
    SlowKernelWarning
        If the interpreter calls the kernel.
    NodataWarning
        If an array says that a number means no data, and the sweep takes it for a value.
    GeoreferenceWarning
        If a GeoTIFF lacks what the field tells of its place, as that is not understood, or is a CRS
        that such a file cannot hold.

    Notes
    -----
    No other thread may write to the arrays during the call. The interpreter lock is free meanwhile.

    Examples
    --------
    >>> import numpy as np, syncline
    >>> def smooth(u):
    ...     return (u.n + u.s + u.e + u.w) / 4
    >>> plate = np.zeros((50, 80))
    >>> plate[0] = 100
    >>> warm, report = syncline.sweep(smooth, plate, iterations=10000, until=1e-3, full_output=True)
    >>> report.iterations < 10000, 10 < float(warm[25, 40]) < 50
    (True, True)
    """
    options = {
        "iterations": iterations,
        "until": until,
        "exact_stop": exact_stop,
        "memory": memory,
        "output": output,
        "overwrite": overwrite,
        "resume": resume,
        "boundary": boundary,
        "nodata": nodata,
        "directions": directions,
        "dtype": dtype,
        "chunks": chunks,
        "threads": threads,
        "depth": depth,
    }
    if progress not in (None, True, False) and not callable(progress):
        raise ArgumentError(f"progress is {progress!r}, but must be a bool or a function")
    bar = Bar() if progress is True else None
    last, watch = [1, 1], None
    if bar is not None or callable(progress):

        def watch(done, step, steps, _):
            last[:] = step, steps
            if bar is None:
                progress(done, step, steps)
            else:
                bar(done, f" pass {step} of {steps}" if steps > 1 else "")

    with _syncline.Busy(), Stage(_first_path(output), memory) as stage:
        job = Job(stage, kernel, field, coefficients, options)
        passes = [output.passes for output in job.outputs]
        before = [path for path in passes if os.path.lexists(path) and not overwrite]
        begin = time.perf_counter()
        try:
            buffers, facts = _syncline.sweep(job.ready.native, job.given(), job.settings, watch)
            if watch is not None:
                watch(1.0, *last[:2], iterations)
        except BaseException as error:
            # Those of an earlier run are left alone, as is all that another call may go on from.
            for path in passes if not resume and _is_interrupt(error) else ():
                if path not in before:
                    remove(path)
            # A file has failed: the native part does not say how to go on from what is left.
            left = [path for path in passes if os.path.lexists(path)]
            is_new = resume or not set(left) <= set(before)
            if type(error) is FileError and job.can_resume and left and is_new:
                what = str(error)
                if left[0] not in what:
                    what += f"; what was complete is in {left[0]}"
                raise FileError(f"{what}: resume=True goes on from there") from error
            raise
        finally:
            if bar is not None:
                bar.end()
        result = job.results(buffers)
    report = Report({**facts, "seconds": time.perf_counter() - begin})
    if until is not None and report.converged is None:
        change = report.residuals[-1] if report.residuals else None
        told = f"after {report.iterations} iterations the largest change is "
        if change is None or math.isfinite(change):
            told += f"{'unknown' if change is None else change}, more than {until}"
        else:
            told += not_finite(result, change)
        warnings.warn(told, ConvergenceWarning, stacklevel=2)
    return (result, report) if full_output else result


def _is_interrupt(error):
    """Return whether a sweep was ended from outside: by a signal, a callback, the interpreter."""
    return not isinstance(error, Error) or type(error) is Error


def plan(kernel, field, coefficients=(), *, iterations, memory=None, output=None, **options):
    """Return how `sweep` would use its memory, without running it.

    Parameters
    ----------
    kernel, field, coefficients, iterations, memory, output
        As for `sweep`; so are all other options, except ``progress`` and ``full_output``.

    Returns
    -------
    Plan
        The passes, the iterations in each of them, and the buffers. They depend on the speed of
        the disk, which is measured: a later run may have another pass.

    Raises
    ------
    Error
        What `sweep` would raise before it runs.

    Examples
    --------
    >>> import numpy as np, syncline
    >>> syncline.plan(lambda u: (u.n + u.s) / 2, np.zeros((100, 100)), iterations=20).passes
    1
    """
    names = ("until", "boundary", "nodata", "directions", "dtype", "chunks", "threads", "depth")
    known = dict.fromkeys(names) | {"exact_stop": False, "overwrite": False, "resume": False}
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ArgumentError(f"plan() got an unexpected keyword argument {unknown[0]!r}")
    given = {"iterations": iterations, "memory": memory, "output": output}
    with Stage(_first_path(output), memory) as stage:
        job = Job(stage, kernel, field, coefficients, known | options | given)
        facts = _syncline.plan(job.ready.native, job.given(), job.settings)
    first = job.arrays[0]
    dtypes = [array.dtype for array in job.arrays]
    return Plan(facts, first.shape, dtypes, job.settings["iterations"], job.settings["memory"])


def _first_path(output):
    """Return the path of an output, beside which temporary files go."""
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        output = output[0] if output else None
    return None if output is None else path_of("output", output)
