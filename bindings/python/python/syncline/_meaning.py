"""What an input says about its numbers: which of them mean no data, and whether they are values.

The words are those of CF, which netCDF, HDF5, zarr and xarray share, and those of rioxarray.

====================================  ==============================================================
``_FillValue``, ``missing_value``,    the number that means no data, as ``nodata=`` says it
``nodata``, ``fill_value``
``scale_factor``, ``add_offset``,     the numbers are packed: refused if a value is another number
``_Unsigned``
``valid_min``, ``valid_max``,         numbers outside mean no data: refused if there are any
``valid_range``
a mask                                its points get the number that means no data
====================================  ==============================================================

What xarray has decoded is in ``encoding``: its numbers are values, and NaN is one of them.
"""

import base64
import binascii
import contextlib
import os
import struct
import sys
import warnings

import numpy as np

from ._errors import ArrayError, NodataWarning
from ._windows import COMPARED, windows

#: The attributes that name a number which means no data, the one that counts first.
NODATA = ("_FillValue", "missing_value", "fill_value", "nodata", "nodatavals")

#: The attributes of packed numbers, with what changes none of them.
_PACKED = {"scale_factor": 1, "add_offset": 0, "scales": 1, "offsets": 0}

#: What is said of the numbers of an input, and not of those of a result.
_OF_NUMBERS = ("valid_min", "valid_max", "valid_range", "actual_range", "_Unsigned", *_PACKED)
_STATISTICS = "STATISTICS_"

#: The attributes with which libraries link the parts of a file of HDF5.
_OF_HDF5 = ("CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST")
_OF_NETCDF = ("_NC", "_Netcdf4")

#: What an encoding says that is no matter of numbers: the names of coordinates.
_KEPT_ENCODING = ("coordinates", "grid_mapping")

#: The largest whole number that means no data, as descriptions have real numbers.
_MOST = 1 << 53

_DECODE = "decode it by xarray.decode_cf, or open it with mask_and_scale=True"

#: What makes an array of numpy of the arrays of other packages.
TO_NUMPY = {
    "cupy": ".get()",
    "pint": ".magnitude, or dequantify() of pint-xarray, which keeps the unit as an attribute",
    "sparse": ".todense()",
}


class Meaning:
    """What the numbers of an array mean.

    ``dtype`` is the type of its elements, ``target`` the one that they are converted to. ``told``
    is the number that the user says means no data; with ``is_whole`` it is all that the sweep
    knows, as of a description.

    ``nodata`` is the number that means no data, as ``target`` has it; `None` if there is none.
    """

    def __init__(self, name, dtype, target, told, attributes=(), encoding=(), is_whole=False):
        self.name, self._attributes = name, dict(attributes)
        self.dtype = np.dtype(dtype)
        self.target = self.dtype if target is None else np.dtype(target)
        self._low = self._high = None
        self._refuse_packed()
        said = self._said()
        others = [number for _, number in said]
        if told is not None:
            # As the elements have it, before they are converted.
            number = as_held(told, self.dtype)
            number = as_held(told if number is None else number, self.target)
            if number is None:
                raise ArrayError(f"nodata={told} of {name}: {self.target} cannot hold it")
            if isinstance(number, int) and abs(number) > _MOST:
                raise ArrayError(f"nodata={told} of {name} is beyond 2**53")
            self.nodata = number
            if said and not any(_same(told, other, self.dtype) for other in others):
                key, other = said[0]
                warn(
                    f"nodata={told} counts for {name}, but its {key} is {other}: points of that "
                    "value are taken as numbers"
                )
                others = []
        elif said and is_whole:
            key, other = said[0]
            warn(
                f"the description has no [nodata] for {name}, whose {key} is {other}: points of "
                "that value are taken as numbers"
            )
            self.nodata, others = None, []
        else:
            self.nodata = self._converted(*said[0]) if said else None
            if isinstance(self.nodata, int) and abs(self.nodata) > _MOST:
                # No description holds it: no point may have it.
                self.nodata = None
        # NaN tells itself.
        self._others = [
            other
            for other in others
            if other == other and not _same(other, self.nodata, self.target)
        ]
        # Near the end of its type, where writers round it, other readers take more for no data.
        self._is_huge = (
            told is None
            and self.dtype.kind == "f"
            and self.nodata is not None
            and np.isfinite(self.nodata)
            and abs(self.nodata) > np.finfo(self.dtype).max / 4
        )
        self._bounds(dict(encoding))

    def _refuse_packed(self):
        for key, neutral in _PACKED.items():
            value = self._attributes.get(key)
            if value is not None and not np.all(np.asarray(value) == neutral):
                raise ArrayError(
                    f"{self.name} has {key}={_shown(value)}, so its numbers are packed, and are "
                    f"not its values: {_DECODE}"
                )
        unsigned = self._attributes.get("_Unsigned")
        if unsigned is not None and self.dtype.kind in "iu":
            is_unsigned = str(unsigned).lower() == "true"
            if is_unsigned != (self.dtype.kind == "u"):
                raise ArrayError(
                    f"{self.name} has _Unsigned={unsigned}, but its type is {self.dtype}, so its "
                    f"numbers are not its values: {_DECODE}"
                )

    def _said(self):
        """Return the numbers that mean no data, with the attributes that say so."""
        found = []
        for key in NODATA:
            for number in self._numbers_in(key):
                if key == "nodatavals" and number != number:
                    continue  # written where a file has none
                if self.dtype.kind not in "fiu":
                    continue
                held = as_held(number, self.dtype)
                if held is None:
                    warn(
                        f"{key}={number} of {self.name} is no value of {self.dtype}, so all of its "
                        "points have data"
                    )
                elif not any(_same(held, other, self.dtype) for _, other in found):
                    found.append((key, held))
        return found

    def _numbers_in(self, key):
        value = self._attributes.get(key)
        if value is None:
            return []
        try:
            return numbers_in(value)
        except (TypeError, ValueError):
            raise ArrayError(
                f"{self.name} has {key}={_shown(value)}, which is no number: say nodata=, and "
                "delete this attribute"
            ) from None

    def _converted(self, key, number):
        held = as_held(number, self.target)
        if held is None:
            raise ArrayError(
                f"{self.name} cannot become {self.target}, which does not hold {number}, its {key}"
            )
        return held

    def _bounds(self, encoding):
        """Find which numbers are valid."""
        span = self._numbers_in("valid_range")
        low, high = span if len(span) == 2 else (None, None)
        if len(span) not in (0, 2):
            raise ArrayError(f"{self.name} has a valid_range that is not two numbers: {span}")
        low = next(iter(self._numbers_in("valid_min")), low)
        high = next(iter(self._numbers_in("valid_max")), high)
        scale, offset = (encoding.get(key) for key in ("scale_factor", "add_offset"))
        # Of numbers that were packed the bounds are whole, and packed as they were.
        are_whole = isinstance(low, (int, type(None))) and isinstance(high, (int, type(None)))
        if are_whole and str(encoding.get("_Unsigned", "")).lower() == "true":
            wrap = 1 << 8 * np.dtype(encoding.get("dtype", "u1")).itemsize
            low, high = (n if n is None or n >= 0 else n + wrap for n in (low, high))
        if are_whole and (scale is not None or offset is not None):
            scale = float(np.asarray(1 if scale is None else scale).item())
            offset = float(np.asarray(0 if offset is None else offset).item())
            # Half a step more, as the decoded numbers are rounded.
            low = low if low is None else low * scale + offset - scale / 2
            high = high if high is None else high * scale + offset + scale / 2
            if scale < 0:
                low, high = high, low
        self._low, self._high = low, high

    def numbers(self, part):
        """Return a part of the array, all of it or some rows, as an array of numpy without a mask.

        Raises `ArrayError` for points without data that have no number which says so.
        """
        part = self.of_numpy(part)
        if isinstance(part, np.ma.MaskedArray):
            part = self._without_mask(part)
        elif isinstance(getattr(part, "mask", None), (np.ndarray, np.bool_)) and part.mask.any():
            raise self._masked()
        if part.ndim and part.dtype.kind in "fiu":
            self._check(part)
        self._check_held(part)
        return part

    def of_numpy(self, part):
        """Return a part of the array as one of numpy, which may have a mask."""
        if isinstance(part, np.ndarray):
            return part
        if np.isscalar(part):
            return np.asarray(part)
        raise of_another_package(self.name, part)

    def has_mask(self, part):
        """Return whether points of an array of numpy are masked, and have a number that says so.

        Raises `ArrayError` for points without that number.
        """
        if not np.ma.is_masked(part):
            return False
        if self.nodata is None:
            raise self._masked()
        return True

    def _without_mask(self, part):
        if not self.has_mask(part):
            return part.data
        self._check_held(part)
        with np.errstate(invalid="ignore"):  # of what the mask hides
            return part.astype(self.target, copy=False).filled(self.nodata)

    def _check_held(self, part):
        """Refuse numbers that the whole type which they become does not hold: they would wrap."""
        if self.target.kind not in "iu" or part.dtype.kind not in "fiu":
            return
        if np.can_cast(part.dtype, self.target):
            return
        info = np.iinfo(self.target)
        for window in windows(part.shape, part.itemsize) if part.ndim else ((),):
            some = part[window]
            # Not of numpy.clip, as float32 has no 2**31 - 1.
            for one in (some.min(), some.max()):
                if one is np.ma.masked:
                    continue
                if not (np.isfinite(one) and info.min <= int(one) <= info.max):
                    raise ArrayError(
                        f"{self.name} has the value {one}, which {self.target} does not hold: "
                        "clip it before, or leave dtype= out"
                    )

    def _masked(self):
        return ArrayError(
            f"{self.name} has masked points, but no number that means no data: say one as "
            f'nodata={{"{self.name}": NUMBER}}, or fill them by .filled(NUMBER)'
        )

    def _check(self, part):
        if not (self._others or self._is_huge) and self._low is None and self._high is None:
            return
        for window in windows(part.shape, part.itemsize, most=COMPARED):
            some = part[window]
            if self._is_huge:
                half = self.nodata / 2
                beside = np.isfinite(some) & (some != self.nodata)
                beside &= some < half if half < 0 else some > half
                if beside.any():
                    raise ArrayError(
                        f"{self.name} has the value {some[beside][0]!s}, but its nodata is "
                        f"{self.nodata}, which is nearly the same: say which one as nodata="
                    )
            for other in self._others:
                if (some == other).any():
                    keys = ", ".join(key for key in NODATA if key in self._attributes)
                    why = (
                        "is beyond 2**53: make it a smaller number"
                        if self.nodata is None
                        else f"so is {self.nodata}: make them one number"
                    )
                    raise ArrayError(
                        f"{self.name} has points of the value {other}, which is no data by its "
                        f"{keys}, but {why}"
                    )
            outside = np.zeros(some.shape, bool)
            if self._low is not None:
                outside |= some < self._low
            if self._high is not None:
                outside |= some > self._high
            if self.nodata is not None:
                # Of an element what it becomes, as the number may be rounded like that.
                with np.errstate(invalid="ignore", over="ignore"):
                    outside[outside] = some[outside].astype(self.target) != self.nodata
            if outside.any():
                raise ArrayError(
                    f"{self.name} has points such as {some[outside][0]} outside of its valid range "
                    f"from {self._low} to {self._high}, so they have no data: give them one number "
                    "and say it as nodata=, or delete valid_range, valid_min and valid_max"
                )


def numbers_in(value):
    """Return the numbers of an attribute; xarray writes real ones to zarr as the text of bytes."""
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        try:
            return [float(value)]
        except ValueError:
            try:
                return list(struct.unpack("<d", base64.standard_b64decode(value)))
            except (binascii.Error, struct.error):
                raise ValueError(f"{value!r} is no number") from None
    numbers = [one for one in np.asarray(value).reshape(-1).tolist() if one is not None]
    if not all(type(one) in (int, float) for one in numbers):
        raise TypeError(f"{value!r} is no number")
    return numbers


def in_zarr(number, dtype):
    """Return a number as the attribute ``_FillValue`` that xarray reads from zarr."""
    if np.dtype(dtype).kind != "f":
        return int(number)
    return base64.standard_b64encode(struct.pack("<d", number)).decode()


def as_held(number, dtype):
    """Return a number as a type of elements has it; `None` if that cannot have it."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            held = float(dtype.type(number))
        return None if np.isinf(held) and not np.isinf(number) else held
    if dtype.kind not in "iu" or not np.isfinite(number) or number != int(number):
        return None
    info = np.iinfo(dtype)
    return int(number) if info.min <= number <= info.max else None


def _same(one, other, dtype):
    """Return whether two numbers are the same in this type."""
    if one is None or other is None:
        return False
    one, other = as_held(one, dtype), as_held(other, dtype)
    return one is not None and (one == other or (one != one and other != other))


def attributes_of_result(attributes, nodata, dtype):
    """Return the attributes of an input as far as they are true of a result."""
    dtype, kept = np.dtype(dtype), {}
    for key, value in dict(attributes).items():
        if key in _OF_NUMBERS or str(key).startswith(_STATISTICS):
            continue
        if key not in NODATA:
            kept[key] = value
    if nodata is not None:
        kept["_FillValue"] = dtype.type(nodata)
    return kept


def encoding_of_result(encoding):
    """Return the encoding of an array of xarray as far as it is true of a result."""
    return {key: encoding[key] for key in _KEPT_ENCODING if key in encoding}


def attributes_of(array):
    """Return the attributes of an array of any package."""
    if hasattr(array, "ncattrs"):
        return {key: array.getncattr(key) for key in array.ncattrs()}
    try:
        attributes = dict(array.attrs)
    except (AttributeError, TypeError, ValueError):
        return {}
    attributes = {
        key: value
        for key, value in attributes.items()
        if key not in _OF_HDF5 and not str(key).startswith(_OF_NETCDF)
    }
    # xarray writes its `_FillValue` to the second format of zarr as the value of absent chunks.
    metadata = getattr(array, "metadata", None)
    if "_ARRAY_DIMENSIONS" in attributes and getattr(metadata, "zarr_format", None) == 2:
        fill = array.fill_value
        if fill is not None:
            attributes.setdefault("_FillValue", fill)
    return attributes


def of_another_package(name, array):
    """Return the error for an array that numpy would take without its unit, or not at all."""
    advice = TO_NUMPY.get(package_of(array), ".to_numpy(), if it has that")
    kind = type(array).__name__
    return ArrayError(
        f"{name} holds a {kind} of {package_of(array)}, and no array of numpy: {advice}"
    )


def refuse_masks_in(values, name):
    """Refuse a list with masked arrays in it, whose masks numpy would drop."""
    for value in values:
        if type(value) in (int, float):
            continue
        if isinstance(value, (list, tuple)):
            refuse_masks_in(value, name)
        elif np.ma.is_masked(value):
            raise ArrayError(
                f"{name} is a list with masked points: make it one array by numpy.ma.stack"
            )
        elif package_of(value) in ("dask", "xarray", "zarr"):
            raise ArrayError(
                f"{name} is a list with a {type(value).__name__} in it: make it one array, such "
                "as by xarray.concat or dask.array.stack"
            )


def package_of(value):
    """Return the name of the package that has made something."""
    return type(value).__module__.partition(".")[0]


def _shown(value):
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return repr(value)


def warn(message, kind=NodataWarning):
    """Warn the caller of this package."""
    here, frame, level = os.path.dirname(__file__), sys._getframe(1), 2
    while frame is not None:
        name = frame.f_code.co_filename
        if os.path.dirname(name) != here and name != contextlib.__file__:
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)
