"""A worker of a pool: what its process runs."""

import pickle
import sys
import time
import traceback

#: The functions that were unpickled, by their pickles.
_functions: dict = {}
_MOST_FUNCTIONS = 1000

#: What the manager says of its main module, until it is needed.
_main = None
#: Whether this worker imports the main module of the manager.
is_importing = False


class RemoteTraceback(Exception):
    """The traceback of a task, as the cause of its exception."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


class _Raised:
    """An exception of a task, with the text of its traceback."""

    def __init__(self, error):
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        self.text = f'\n"""\n{"".join(lines)}"""'
        self.error = error

    def __reduce__(self):
        return _raised, (self.error, self.text)


def _raised(error, text):
    error.__cause__ = RemoteTraceback(text)
    return error


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
    if _main is not None and b"__main__" in pickled:
        _import_main()
    return pickle.loads(pickled, buffers=parts)


def _import_main():
    """Import the main module of the manager, as `multiprocessing` does."""
    global _main, is_importing
    from multiprocessing import spawn

    main, _main = _main, None
    is_importing = True
    try:
        spawn.prepare(main)
    finally:
        is_importing = False


def _function(pickled):
    found = _functions.get(pickled)
    if found is None:
        found = _load(pickled)
        if len(_functions) >= _MOST_FUNCTIONS:
            _functions.clear()
        _functions[pickled] = found
    return found


def _flush():
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _dumps(value, parts):
    """Return the pickle of a result, by `cloudpickle` if the task came by it and it is needed."""
    try:
        return dumps(value, parts)
    except Exception:
        cloudpickle = sys.modules.get("cloudpickle")
        if cloudpickle is None:
            raise
        del parts[:]
        return dumps(value, parts, cloudpickle.dumps)


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
    raised = _Raised(error)
    try:
        pickle.loads(pickle.dumps(raised, 5))
    except Exception:
        raised = _Raised(_unpicklable(f"an exception that cannot be pickled: {error!r}"))
        raised.text = f'\n"""\n{"".join(traceback.format_exception(error))}"""'
    return raised


def run(pickled, parts, is_chunk=False):
    """Run a task, or begin to run one of several items."""
    try:
        function, items, options = _load(pickled, parts)
        function = _function(function)
    except BaseException as error:
        outcome = _outcome(error)
        if not is_chunk:
            return _answer((False, outcome))
        return iter(()), lambda: (dumps((None, outcome, None), []), [])
    if is_chunk:
        outcomes = []
        begin = time.perf_counter()
        return _steps(function, items, outcomes), lambda: _chunk_answer(outcomes, begin)
    try:
        value = True, function(*items, **options)
    except BaseException as error:
        value = False, _outcome(error)
    _flush()
    return _answer(value)


def _steps(function, items, outcomes):
    for item in items:
        try:
            outcomes.append((True, function(*item)))
        except BaseException as error:
            outcomes.append((False, _outcome(error)))
        yield


def _chunk_answer(outcomes, begin):
    _flush()
    seconds = time.perf_counter() - begin
    if all(fine for fine, _ in outcomes):
        # Pickled as a list of values: most are small.
        parts = []
        try:
            return _dumps((seconds, [value for _, value in outcomes], None), parts), parts
        except Exception:
            pass
    each = [_answer(outcome) for outcome in outcomes]
    parts = [part for _, some in each for part in some]
    pickles = [(pickled, len(some)) for pickled, some in each]
    return dumps((seconds, None, pickles), []), parts


def main(start, main_module):
    """Serve the pool that has started this process."""
    global _main
    from . import _syncline

    _main = main_module
    if start is not None:
        function, args = _load(*start) if isinstance(start, tuple) else _load(start)
        function(*args)
    _syncline.serve(run)
