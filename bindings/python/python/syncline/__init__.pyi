from __future__ import annotations

import concurrent.futures
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Path: TypeAlias = str | os.PathLike[str]
_Boundary: TypeAlias = str | float

__all__ = [
    "ArgumentError",
    "ArrayError",
    "ConvergenceWarning",
    "Error",
    "FileError",
    "Function",
    "Future",
    "GeoreferenceWarning",
    "Kernel",
    "KernelError",
    "MemoryBoundError",
    "NodataWarning",
    "OutputError",
    "Plan",
    "Pool",
    "PoolError",
    "Report",
    "SharedArray",
    "SlowKernelWarning",
    "TaskPicklingError",
    "TaskTimeoutError",
    "TraceReport",
    "WorkerError",
    "empty",
    "function",
    "kernel",
    "plan",
    "report",
    "sweep",
    "trace",
]

__version__: str

class Error(Exception): ...
class ArgumentError(Error, TypeError, ValueError): ...
class KernelError(Error, ValueError): ...
class ArrayError(Error, ValueError): ...
class MemoryBoundError(Error, MemoryError): ...
class FileError(Error, OSError): ...
class OutputError(Error, FileExistsError): ...
class PoolError(Error, RuntimeError): ...
class WorkerError(PoolError): ...
class TaskTimeoutError(PoolError, TimeoutError): ...
class TaskPicklingError(PoolError, pickle.PicklingError): ...
class GeoreferenceWarning(UserWarning): ...
class NodataWarning(UserWarning): ...
class SlowKernelWarning(UserWarning): ...
class ConvergenceWarning(UserWarning): ...

class Kernel:
    function: Callable[..., Any]
    parameters: list[str]
    def __init__(self, function: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **options: Any) -> Any: ...
    def describe(
        self,
        dtype: DTypeLike | Sequence[DTypeLike] = "float64",
        dimensions: Literal[1, 2, 3] = 2,
        boundary: _Boundary | Sequence[_Boundary] | Mapping[Any, _Boundary] = "fixed",
        nodata: float | Mapping[str, float] | None = None,
        directions: str | Sequence[str] | None = None,
    ) -> str: ...

def kernel(function: Callable[..., Any]) -> Kernel: ...

class Function:
    name: str
    arguments: int
    def __init__(self) -> None: ...
    def __call__(self, *values: Any) -> Any: ...

def function(
    code: Any,
    arguments: int | None = None,
    *,
    name: str | None = None,
    context: int = 0,
    unchecked: bool = False,
) -> Function: ...

class Report:
    iterations: int
    passes: int
    depth: int
    residuals: list[float]
    converged: int | None
    resumed: int
    bytes_read: int
    bytes_written: int
    buffers: int
    threads: int
    seconds: float
    def __init__(self, facts: Mapping[str, Any]) -> None: ...

class Plan:
    depth: int
    passes: int
    buffers: int
    shape: tuple[int, ...]
    dtypes: list[str]
    iterations: int
    memory: int
    def __init__(
        self,
        facts: Mapping[str, Any],
        shape: tuple[int, ...],
        dtypes: list[str],
        iterations: int,
        memory: int,
    ) -> None: ...

@overload
def sweep(
    kernel: Kernel | Callable[..., Any] | _Path,
    field: NDArray[Any] | _Path,
    coefficients: Any = (),
    *,
    iterations: int,
    until: float | None = None,
    exact_stop: bool = False,
    memory: int | str | None = None,
    output: None = None,
    overwrite: bool = False,
    resume: bool = False,
    boundary: _Boundary | Sequence[_Boundary] | Mapping[Any, _Boundary] | None = None,
    nodata: float | Mapping[str, float] | None = None,
    directions: str | Sequence[str] | None = None,
    dtype: DTypeLike | None = None,
    chunks: tuple[int, ...] | None = None,
    threads: int | None = None,
    depth: int | None = None,
    progress: bool | Callable[[float, int, int], object] = False,
    full_output: Literal[False] = False,
) -> NDArray[Any]: ...
@overload
def sweep(
    kernel: Kernel | Callable[..., Any] | _Path,
    field: Any,
    coefficients: Any = (),
    *,
    iterations: int,
    until: float | None = None,
    exact_stop: bool = False,
    memory: int | str | None = None,
    output: Any = None,
    overwrite: bool = False,
    resume: bool = False,
    boundary: _Boundary | Sequence[_Boundary] | Mapping[Any, _Boundary] | None = None,
    nodata: float | Mapping[str, float] | None = None,
    directions: str | Sequence[str] | None = None,
    dtype: DTypeLike | None = None,
    chunks: tuple[int, ...] | None = None,
    threads: int | None = None,
    depth: int | None = None,
    progress: bool | Callable[[float, int, int], object] = False,
    full_output: Literal[True],
) -> tuple[Any, Report]: ...
@overload
def sweep(
    kernel: Kernel | Callable[..., Any] | _Path,
    field: Any,
    coefficients: Any = (),
    *,
    iterations: int,
    until: float | None = None,
    exact_stop: bool = False,
    memory: int | str | None = None,
    output: Any = None,
    overwrite: bool = False,
    resume: bool = False,
    boundary: _Boundary | Sequence[_Boundary] | Mapping[Any, _Boundary] | None = None,
    nodata: float | Mapping[str, float] | None = None,
    directions: str | Sequence[str] | None = None,
    dtype: DTypeLike | None = None,
    chunks: tuple[int, ...] | None = None,
    threads: int | None = None,
    depth: int | None = None,
    progress: bool | Callable[[float, int, int], object] = False,
    full_output: bool = False,
) -> Any: ...
def plan(
    kernel: Kernel | Callable[..., Any] | _Path,
    field: Any,
    coefficients: Any = (),
    *,
    iterations: int,
    memory: int | str | None = None,
    output: Any = None,
    **options: Any,
) -> Plan: ...

class Future(concurrent.futures.Future[_T], Generic[_T]):
    def __init__(self, pool: Pool) -> None: ...
    def kill(self) -> bool: ...

class Pool(concurrent.futures.Executor):
    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        retries: int = 0,
        timeout: float | None = None,
        worker_memory: int | str | None = None,
        memory: int | str = "1G",
        batch: int | None = None,
    ) -> None: ...
    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]: ...
    def submit_with(
        self,
        fn: Callable[..., _T],
        /,
        *args: Any,
        priority: int = 0,
        cost: float = 0.0,
        **kwargs: Any,
    ) -> Future[_T]: ...
    @overload
    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        progress: bool | Callable[[int, int], object] = False,
        return_exceptions: Literal[False] = False,
    ) -> Iterator[_T]: ...
    @overload
    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        progress: bool | Callable[[int, int], object] = False,
        return_exceptions: bool,
    ) -> Iterator[_T | BaseException]: ...
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...
    def kill_workers(self) -> None: ...

class SharedArray(np.ndarray[Any, Any]): ...

def empty(shape: int | tuple[int, ...], dtype: DTypeLike = ...) -> SharedArray: ...

class trace:
    path: str | None
    events: int | None
    lost: int | None
    def __init__(self, path: _Path | None = None) -> None: ...
    def __enter__(self) -> trace: ...
    def __exit__(self, *_: object) -> Literal[False]: ...
    def report(self, other: _Path | trace | None = None) -> TraceReport: ...

def report(trace: _Path | trace, other: _Path | trace | None = None) -> TraceReport: ...

class TraceReport:
    text: str
    def __init__(self, reported: Any) -> None: ...
    def save(self, path: _Path, *, overwrite: bool = False) -> None: ...
