"""The arguments of a sweep, checked, and how its results get the kinds of its fields."""

import os
import sys
import tomllib
from collections.abc import Mapping

import numpy as np

from ._arrays import Wanted, open_array
from ._errors import ArgumentError, ArrayError, Error, KernelError, MemoryBoundError, OutputError
from ._files import path_of
from ._geotiff import check_place
from ._kernel import names_of, prepare, real_number
from ._output import Output
from ._sizes import element_type, told_size, whole

#: Whether threads take turns in the interpreter.
_HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()


class Job:
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
        dtype, nodata = options["dtype"], _nodata(options["nodata"], names)
        dtype = None if dtype is None else element_type("dtype", dtype)
        is_text = isinstance(kernel, (str, os.PathLike))
        if is_text and not nodata:
            nodata = _nodata_of_text(kernel)
        self.outputs = self._outputs(stage, options)
        count = len(self.fields)
        asked = [
            Wanted(name, dtype if n < count else None, nodata.get(name), is_text, n < count)
            for n, (name, _) in enumerate(self.fields + extra)
        ]
        self.arrays = []
        for (_, array), wanted in zip(self.fields + extra, asked):
            self.arrays.append(open_array(array, wanted, stage, *self.arrays[:1]))
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
        self.ready = prepare(
            kernel,
            ["bool" if wanted.is_mask else one.dtype for one, wanted in zip(self.arrays, asked)],
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
            for other in places:
                if other.startswith(os.path.join(place, "")):
                    raise OutputError(f"the output {other} lies in the output {place}")
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
        files = [file for array in self.arrays for file in array.files] if self.outputs else []
        for output, array in zip(self.outputs, self.arrays):
            output.check(array, files)
        copies = sum(array.nbytes for array in self.arrays if array.is_copied)
        results = [(output, array.nbytes) for output, array in zip(self.outputs, self.arrays)]
        # What the native part writes beside the copies, and then each result in its folder.
        written = sum(nbytes for output, nbytes in results if not output.is_direct)
        if copies or written:
            stage.check_room(copies, written, [(output.home, nbytes) for output, nbytes in results])

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

    @property
    def can_resume(self):
        """Whether a later run may go on from the passes of this one."""
        is_kept = bool(self.outputs) and all(output.is_direct for output in self.outputs)
        return is_kept and self.ready.unknown is None

    def given(self):
        """Return the arrays for the native part."""
        return [array.given() for array in self.arrays]

    def results(self, buffers):
        """Return the results, each of the kind of its field."""
        fields = self.arrays[: len(self.fields)]
        if self.outputs:
            made, errors = [], []
            for at, (output, field) in enumerate(zip(self.outputs, fields)):
                try:
                    view = output.finish(field)
                except Error as error:
                    # The results of the other fields are not lost with this one.
                    errors.append(error)
                    continue
                except BaseException as interrupt:
                    # Neither is what has taken hours with a Ctrl-C in its last step.
                    kept = [note for other in self.outputs[at:] for note in other.keep()]
                    for note in (*errors, *kept):
                        interrupt.add_note(str(note))
                    raise
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
