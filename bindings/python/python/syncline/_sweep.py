"""Sweeps: the same update of every point of an array, many times, inside a memory bound."""

import atexit
import math
import os
import sys
import time
import tomllib
import warnings
from collections.abc import Mapping

import numpy as np

from . import _syncline
from ._arrays import Wanted, aligned, is_data_array, open_array
from ._errors import (
    ArgumentError,
    ArrayError,
    ConvergenceWarning,
    Error,
    KernelError,
    MemoryBoundError,
    OutputError,
)
from ._files import Stage, path_of, remove
from ._geotiff import check_place
from ._kernel import names_of, prepare, real_number
from ._output import Output
from ._progress import Bar
from ._report import Plan, Report, not_finite
from ._sizes import element_type, told_size, whole

# A thread that sweeps when the interpreter ends is waited for.
atexit.register(_syncline.end)

#: Whether threads take turns in the interpreter.
_HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()


class _Job:
    """The arguments of a sweep, checked."""

    def __init__(self, stage, kernel, field, coefficients, options):
        self.fields, self.rewrap = _named(field, "field")
        names = names_of(kernel)
        self.is_dataset = _is_dataset(field)
        # For each field of the kernel its position among those of the user.
        self.order, self.given_names = range(len(self.fields)), None
        if isinstance(field, Mapping) or self.is_dataset:
            self._order(names)
        extra = _ordered(coefficients, names, len(self.fields))
        given = len(self.fields) + len(extra)
        if len(names) != given:
            absent = f": {', '.join(names[given:])} missing" if given < len(names) else ""
            if isinstance(field, list):
                absent += "; several fields are a tuple"
            raise ArrayError(
                f"the kernel takes {len(names)} arrays ({', '.join(names)}), but {given} are "
                f"given{absent}"
            )
        renamed = [(name, array) for name, (_, array) in zip(names, self.fields + extra)]
        self.fields, extra = renamed[: len(self.fields)], renamed[len(self.fields) :]
        if is_data_array(self.fields[0][1]):
            name, first = self.fields[0]
            extra = [
                (of, aligned(one, of, first, name) if is_data_array(one) else one)
                for of, one in extra
            ]
            self.fields = [
                (of, aligned(one, of, first, name) if is_data_array(one) else one)
                for of, one in self.fields
            ]
        dtype, nodata = options["dtype"], _nodata(options["nodata"], names)
        dtype = None if dtype is None else element_type("dtype", dtype)
        is_text = isinstance(kernel, (str, os.PathLike))
        if is_text and not nodata:
            nodata = _nodata_of_text(kernel)
        self.outputs = self._outputs(stage, options)
        count = len(self.fields)
        self.arrays = [
            open_array(
                array,
                Wanted(name, dtype if n < count else None, nodata.get(name), is_text),
                stage,
                n < count,
            )
            for n, (name, array) in enumerate(self.fields + extra)
        ]
        first = self.arrays[0]
        for array in self.arrays[1:]:
            check_place(first, array)
            if array.shape != first.shape:
                raise ArrayError(
                    f"{array.name} has the shape {array.shape}, but {first.name} has {first.shape}"
                )
        if is_text:
            nodata = options["nodata"]
        else:
            # What the user says, and for the other arrays what they say themselves.
            told = zip(names, self.arrays)
            nodata = {name: one.nodata for name, one in told if one.nodata is not None} or None
        is_mask = [
            getattr(getattr(array, "dtype", None), "kind", None) == "b" for _, array in extra
        ]
        self.ready = prepare(
            kernel,
            [
                "bool" if is_bool else array.dtype
                for array, is_bool in zip(self.arrays, [False] * count + is_mask)
            ],
            count,
            len(first.shape),
            options["boundary"],
            nodata,
            options["directions"],
        )
        if options["resume"] and self.ready.unknown is not None:
            raise OutputError(
                "a run of this kernel cannot be resumed, as no other one is known to compute the "
                f"same: {self.ready.unknown}"
            )
        native = self.ready.native
        if len(native.fields) != count:
            raise ArrayError(
                f"the kernel has {len(native.fields)} field(s), but {count} are given: the fields "
                "of a kernel are a tuple"
            )
        if len(native.coefficients) != len(extra):
            raise ArrayError(
                f"the kernel takes {len(native.coefficients)} coefficient(s) "
                f"({', '.join(native.coefficients)}), but {len(extra)} are given"
            )
        self.settings = self._settings(stage, options)
        self._check_outputs(stage)

    def _order(self, names):
        """Bring fields that are given by name in the order of the kernel's parameters."""
        given = self.given_names = [name for name, _ in self.fields]
        wanted = names[: len(given)]
        if len(given) == 1 and given[0] not in names[1:]:
            return
        if sorted(given) != sorted(wanted):
            one = f"; give one as dataset[{given[0]!r}]" if self.is_dataset else ""
            raise ArrayError(
                f"the kernel takes {', '.join(names)}, the fields first, but the fields "
                f"{', '.join(given)} are given: a dict has them by these names, a tuple in this "
                f"order{one}"
            )
        rewrap, self.order = self.rewrap, [given.index(name) for name in wanted]
        self.fields = [self.fields[at] for at in self.order]
        self.rewrap = lambda made: rewrap([made[wanted.index(name)] for name in given])

    def _outputs(self, stage, options):
        output = options["output"]
        if output is None:
            if options["resume"] or options["overwrite"]:
                raise OutputError("resume and overwrite are for an output on file: say output=")
            if options["chunks"] is not None:
                raise OutputError("chunks= is for an output in .zarr")
            return []
        names = [name for name, _ in self.fields]
        if isinstance(output, Mapping):
            names = names if self.given_names is None else [self.given_names[n] for n in self.order]
            missing = [name for name in names if name not in output]
            if missing:
                raise OutputError(f"the outputs do not name the field {missing[0]}")
            output = [output[name] for name in names]
        else:
            is_one = not isinstance(output, (list, tuple))
            output = [output] if is_one else list(output)
            if len(output) != len(names):
                raise OutputError(f"{len(output)} outputs are given for {len(names)} fields")
            output = [output[at] for at in self.order]
        output = [path_of("output", path) for path in output]
        places = [os.path.realpath(path) for path in output]
        for place in places:
            if places.count(place) > 1:
                raise OutputError(f"two fields have the output {place}")
        made = [Output(path, stage, options["overwrite"], options["chunks"]) for path in output]
        homes = {one.home for one in made}
        if len(made) > 1 and (len(homes) > 1 or not all(one.is_direct for one in made)):
            # The native part writes all files into one folder.
            for one in made:
                if one.is_direct:
                    one.detour()
        elif len(made) > 1:
            # Whatever their folder is called.
            for one in made:
                one.npy = os.path.join(one.home, os.path.basename(one.target))
        if options["resume"] and not all(one.is_direct for one in made):
            raise OutputError("only outputs in .npy, in one folder, can be resumed")
        return made

    def _check_outputs(self, stage):
        """Check all that the last step needs: it is done before the first."""
        files = [file for array in self.arrays for file in array.files]
        for output, array in zip(self.outputs, self.arrays):
            output.check(array, files)
        copies = sum(array.nbytes for array in self.arrays if array.is_copied)
        # The result, and one that is made of it.
        results = [
            array.nbytes * (1 if output.is_direct else 2)
            for output, array in zip(self.outputs, self.arrays)
        ]
        if copies or not all(output.is_direct for output in self.outputs):
            stage.check_room(copies, sum(results))

    def _settings(self, stage, options):
        iterations = whole("iterations", 0, options["iterations"])
        # What was copied to memory is not there for buffers.
        memory = stage.memory - stage.taken
        results = sum(array.nbytes for array in self.arrays[: len(self.fields)])
        if not self.outputs and results >= memory:
            raise MemoryBoundError(
                f"the result takes {told_size(results)}, and the memory allowed is "
                f"{told_size(memory)}: give output=, a file for the result"
            )
        until = _until(options["until"])
        threads = _whole_or_none("threads", 1, options["threads"])
        if threads is None and self.ready.interpreted and _HAS_LOCK:
            threads = 1
        return {
            "iterations": iterations,
            "until": until,
            "exact_stop": bool(options["exact_stop"]),
            "memory": memory,
            "threads": threads,
            "depth": _whole_or_none("depth", 1, options["depth"]),
            "outputs": [output.npy for output in self.outputs],
            "existing": "resume"
            if options["resume"]
            else "discard"
            if options["overwrite"]
            else "refuse",
        }

    def given(self):
        """Return the arrays for the native part."""
        return [array.given() for array in self.arrays]

    def results(self, buffers):
        """Return the results, each of the kind of its field."""
        fields = self.arrays[: len(self.fields)]
        if self.outputs:
            made, errors = [], []
            for output, field in zip(self.outputs, fields):
                try:
                    view = output.finish(field)
                except Error as error:
                    # The results of the other fields are not lost with this one.
                    errors.append(error)
                    continue
                if isinstance(view, np.ndarray):
                    view = field.wrap(view)
                made.append(output.path if view is None else view)
            if errors:
                raise (
                    errors[0] if len(errors) == 1 else type(errors[0])("; ".join(map(str, errors)))
                )
            if self.is_dataset and any(isinstance(one, str) for one in made):
                # A Dataset has arrays, and no paths.
                return {self.given_names[at]: one for at, one in zip(self.order, made)}
        else:
            made = [
                field.wrap(np.frombuffer(buffer, field.dtype).reshape(field.shape))
                for buffer, field in zip(buffers, fields)
            ]
        return self.rewrap(made)


def _until(until):
    if until is None:
        return None
    try:
        number = float(until)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not number >= 0:
        raise ArgumentError(f"until is {until!r}, but must be a number of at least 0")
    return number


def _nodata(nodata, names):
    """Return the numbers that the user says mean no data, by the names of the arrays."""
    if nodata is None:
        return {}
    given = dict(nodata) if isinstance(nodata, Mapping) else {names[0]: nodata}
    for name, value in given.items():
        if name not in names:
            raise KernelError(f"nodata names {name!r}, but the arrays are {', '.join(names)}")
        try:
            given[name] = real_number(value, f"nodata of {name}")
        except KernelError as error:
            raise ArgumentError(str(error)) from None
    return given


def _nodata_of_text(kernel):
    """Return the numbers that a description says mean no data."""
    text = os.fsdecode(kernel)
    if "\n" not in text:
        with open(text, encoding="utf-8") as file:
            text = file.read()
    try:
        table = tomllib.loads(text).get("nodata", {})
    except tomllib.TOMLDecodeError:
        return {}
    return {
        name: value["value"] if isinstance(value, Mapping) else value
        for name, value in table.items()
    }


def _whole_or_none(name, least, value):
    return None if value is None else whole(name, least, value)


def _is_dataset(value):
    return type(value).__module__.startswith("xarray") and hasattr(value, "data_vars")


def _named(field, name):
    """Return the fields with their names, and what makes the result of theirs."""
    if _is_dataset(field):
        pairs = [(str(key), field[key]) for key in field.data_vars]
        keys = list(field.data_vars)
        return pairs, lambda made: field.assign(dict(zip(keys, made)))
    if isinstance(field, Mapping):
        pairs = [(str(key), value) for key, value in field.items()]
        return pairs, lambda made: dict(zip(field, made))
    if isinstance(field, tuple):
        pairs = [(f"{name} {n}", value) for n, value in enumerate(field)]
        return pairs, tuple
    return [(name, field)], lambda made: made[0]


def _ordered(coefficients, names, fields):
    if coefficients is None:
        return []
    if _is_dataset(coefficients):
        coefficients = {str(key): coefficients[key] for key in coefficients.data_vars}
    if not isinstance(coefficients, Mapping):
        if not isinstance(coefficients, (list, tuple)):
            coefficients = [coefficients]
        return [(f"coefficient {n}", array) for n, array in enumerate(coefficients)]
    wanted = names[fields:]
    unknown = [name for name in coefficients if name not in wanted]
    missing = [name for name in wanted if name not in coefficients]
    if unknown or missing:
        what = (
            f"has no coefficient {unknown[0]}" if unknown else f"needs the coefficient {missing[0]}"
        )
        raise ArrayError(f"the kernel {what}: they are {', '.join(wanted) or 'none'}")
    return [(name, coefficients[name]) for name in wanted]


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
        complete. A link is followed, and no input is ever the output. A ``DataArray`` goes to a
        ``.zarr`` with its coordinates and attributes, and to a ``.tif`` with its CRS and transform,
        as far as it tells them. Several fields have a list, in the order in which they are given,
        or a dict by name; only outputs in ``.npy``, in one folder, can be resumed then.
    overwrite : bool
        Replace an existing output, and what an interrupted run has left.
    resume : bool
        Go on where an interrupted run into this output ended, or add iterations to its result;
        begin if there is neither. The kernel, its functions and the arrays must be the same.
    boundary : str, number, tuple or dict, optional
        What is beyond the edges, for all axes, or a tuple, the first axis first, or a dict by axis
        (``{1: "periodic"}``): ``"fixed"`` (points that lack a neighbour keep their values; the
        default, also called ``"none"``), ``"nearest"``, ``"reflect"`` (as ``numpy.pad``; Dask's, of
        depth 1, is ``"nearest"`` here), a number, or, along the last axis of explicit kernels,
        ``"periodic"``. A point of which one neighbour is beyond a ``"fixed"`` edge stays, whatever
        is beyond the other axes.
    nodata : number or dict, optional
        The value of the field, or of each array, that means no data [default: what the arrays say,
        as their attributes ``_FillValue`` or ``missing_value``, the nodata of a GeoTIFF, or the
        fill value of a mask; unless the kernel is a text, which says it itself]. Such points stay,
        and their neighbours see their own value in place of it. A point that becomes this number
        has no data from then on. Masked points get this number, and are refused without one.
    directions : str or sequence of str, optional
        The directions of the iterations of a kernel that reads new values, in turn, such as
        ``["south-east", "north-west"]``: from the first row and column to the last, and back. The
        others are ``"south-west"`` and ``"north-east"``.
    dtype : dtype, optional
        Convert the fields to this type first.
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
        stay if a file fails, or the process is killed.

    Warns
    -----
    ConvergenceWarning
        If ``until`` was not reached.
    SlowKernelWarning
        If the interpreter calls the kernel.
    NodataWarning
        If an array says that a number means no data, and the sweep takes it for a value.
    GeoreferenceWarning
        If a GeoTIFF lacks what the field tells of its place, as that is not understood.

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
        job = _Job(stage, kernel, field, coefficients, options)
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
        job = _Job(stage, kernel, field, coefficients, known | options | given)
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
