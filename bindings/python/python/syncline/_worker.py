"""A worker of a pool: what its process runs."""

import contextlib
import pickle
import sys
import time
import traceback
import types

#: The functions that were unpickled, by their pickles.
_functions: dict = {}
_MOST_FUNCTIONS = 1000

#: The first byte of a pickle that refers to the main module of the manager.
NEEDS_MAIN = b"m"

#: What the manager says of its main module, until it is needed.
_main = None
#: Why that module cannot be imported, if it was tried.
_main_failure = None
#: Whether this worker imports the main module of the manager.
is_importing = False
#: Whether this worker pickles what a task returns.
is_answering = False
#: What the initializer has raised, which is why no task can run.
_failure = None


class RemoteTraceback(Exception):
    """The traceback of a task, as the cause of its exception."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


class _Raised:
    """An exception of a task, with the text of its traceback.

    Exceptions whose ``__init__`` takes other arguments than ``args`` are made `without_init`.
    """

    def __init__(self, error, without_init=False):
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        self.text = f'\n"""\n{"".join(lines)}"""'
        self.error, self.without_init = error, without_init

    def __reduce__(self):
        error = self.error
        if self.without_init:
            return _made_without_init, (type(error), error.args, error.__dict__, self.text)
        return _raised, (error, self.text)


def _raised(error, text):
    error.__cause__ = RemoteTraceback(text)
    return error


def _made_without_init(kind, args, attributes, text):
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return _raised(error, text)


def dumps(value, parts, dumps=pickle.dumps):
    """Return the pickle of a value, whose large buffers go to `parts`."""

    def keep(buffer):
        try:
            raw = buffer.raw()
        except BufferError:  # neither C nor Fortran order
            return True
        return True if raw.nbytes < 4096 else parts.append(raw)

    return dumps(value, 5, buffer_callback=keep)


def _load(pickled, parts=()):
    if pickled[:1] == NEEDS_MAIN:
        pickled = pickled[1:]
        if _main is not None:
            _import_main()
        if _main_failure is not None:
            raise _main_failure
    return pickle.loads(pickled, buffers=parts)


def _import_main():
    """Import the main module of the manager, as `multiprocessing` does."""
    global _main, _main_failure, is_importing
    from multiprocessing import spawn

    from ._errors import Error, TaskPicklingError

    main, _main = _main, None
    is_importing = True
    try:
        spawn.prepare(main)
    except Error as error:
        _main_failure = error
    except (Exception, SystemExit) as error:
        _main_failure = TaskPicklingError(f"a worker cannot import the main module: {error!r}")
        _main_failure.__cause__ = error
    finally:
        is_importing = False


def _load_task(pickled, parts):
    """Return the parts of a task; its function is the first of them.

    What they raise that are unpickled says that the task cannot be had here.
    """
    try:
        function, *rest = _load(pickled, parts)
        return _function(function), *rest
    except Exception as error:
        from ._errors import Error, TaskPicklingError

        if isinstance(error, (Error, MemoryError)):
            raise
        told = f"a worker cannot unpickle the task: {error!r}"
        raise TaskPicklingError(told) from error


def _function(pickled):
    found = _functions.get(pickled)
    if found is None:
        found = _load(pickled)
        # Others may have a state, which each task has for itself.
        if _is_of_a_module(found):
            if len(_functions) >= _MOST_FUNCTIONS:
                _functions.clear()
            _functions[pickled] = found
    return found


def _is_of_a_module(function):
    """Return whether a function or a class was imported: it was not pickled by its value."""
    if not isinstance(function, (types.FunctionType, types.BuiltinFunctionType, type)):
        return False
    found = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _flush():
    for stream in (sys.stdout, sys.stderr):
        # A task may have closed it, or its reader may have gone.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()


def _dumps(value, parts=None):
    """Return the pickle of a result, by `cloudpickle` if the task came by it and it is needed.

    Large buffers go to `parts`, if it is given.
    """
    global is_answering
    is_answering = True
    try:
        try:
            return pickle.dumps(value, 5) if parts is None else dumps(value, parts)
        except Exception:
            cloudpickle = sys.modules.get("cloudpickle")
            if cloudpickle is None:
                raise
            if parts is None:
                return cloudpickle.dumps(value, 5)
            del parts[:]
            return dumps(value, parts, cloudpickle.dumps)
    finally:
        is_answering = False


def _answer(value):
    parts = []
    try:
        return _dumps(value, parts), parts
    except Exception as error:
        what = value[1] if isinstance(value, tuple) else value
        told = f"the result of type {type(what).__name__} cannot be pickled: {error!r}"
        return dumps((False, _unpicklable(told)), []), []


def _unpicklable(told):
    from ._errors import TaskPicklingError

    return TaskPicklingError(told)


def _outcome(error):
    """Return what a task has raised, as it goes to the manager."""
    for raised in (_Raised(error), _Raised(error, without_init=True)):
        try:
            pickle.loads(_dumps(raised))
        except Exception:
            continue
        return raised
    text = raised.text
    raised = _Raised(_unpicklable(f"an exception that cannot be pickled: {error!r}"))
    raised.text = text
    return raised


def run(pickled, parts):
    """Run a task."""
    try:
        _check_start()
        function, items, options = _load_task(pickled, parts)
        value = True, function(*items, **options)
    except BaseException as error:
        value = False, _outcome(error)
    _flush()
    return _answer(value)


class Items:
    """The items of a task that has several.

    `steps` runs an item with each step. What is not a plain value goes through `keep` at once,
    and what is raised through `fail`; `answer` is called with the list of what these returned.
    """

    def __init__(self, pickled, parts):
        self.marked, self.failure = [], None
        try:
            _check_start()
            function, columns, _ = _load_task(pickled, parts)
            self.count = len(columns[0])
            self.steps = map(function, *columns)
        except BaseException as error:
            self.count, self.steps, self.failure = 0, iter(()), _outcome(error)
        self.begin = time.perf_counter()

    def keep(self, at, value):
        """Return what goes to the manager for a result, which later items may change."""
        if self.count == 1:
            return value
        self.marked.append(at)
        return _pickled((True, value))

    def fail(self, at, error):
        """Return what goes to the manager for an exception."""
        self.marked.append(at)
        return _pickled((False, _outcome(error)))

    def answer(self, values):
        """Return the pickle of the answer, and its buffers."""
        _flush()
        if self.failure is not None:
            return dumps((None, self.failure, ()), []), []
        seconds, parts = time.perf_counter() - self.begin, []
        try:
            return _dumps((seconds, values, self.marked), parts), parts
        except Exception:
            # Only the result of a single item is not a pickle or plain.
            values = [_pickled((True, value)) for value in values]
            return dumps((seconds, values, [0]), []), []


def _pickled(outcome):
    """Return the pickle of an outcome, with copies of its buffers."""
    try:
        return _dumps(outcome)
    except Exception:
        return _answer(outcome)[0]


def _check_start():
    if _failure is not None:
        from ._errors import PoolError

        try:
            told = repr(_failure)
        except Exception:
            told = type(_failure).__name__
        raise PoolError(f"the initializer of the pool has raised: {told}") from _failure


def main(start, main_module):
    """Serve the pool that has started this process."""
    global _main, _failure
    from . import _syncline

    _main = main_module
    if start is not None:
        owner, number, length = start
        with open(f"/proc/{owner}/fd/{number}", "rb") as file:
            pickled = file.read(length)
        try:
            function, args = _load(pickled)
            function(*args)
        except BaseException as error:
            _failure = error
    _syncline.serve(run, Items)
