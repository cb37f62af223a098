"""The pickles by which calls go to workers, and what a worker needs to read them."""

import _thread
import contextlib
import os
import pickle
import subprocess
import sys
import threading
import types
import weakref

from . import _worker
from ._errors import TaskPicklingError
from ._futures import in_main
from ._worker import dumps

#: The time in seconds that another thread has to do what has failed in the main thread.
_PATIENCE = 10

#: The pickles of functions that are pickled by name.
_functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def pickle_of_function(fn):
    """Return the pickle of a function; those that are pickled by name are kept."""
    if type(fn) is not types.FunctionType:
        return pickle_of(fn, None)
    found = _functions.get(fn)
    if found is None:
        found = pickle_of(fn, None)
        if b"__main__" not in found and len(found) < 200:
            _functions[fn] = found
    return found


def pickle_of(value, parts, told=None):
    """Return the pickle of a value, by `cloudpickle` where it is needed and installed.

    An error shows `told`, or the value.
    """
    told = value if told is None else told

    def pickled_by(module):
        if parts is None:
            return module.dumps(value, 5), ()
        # Of each call its own: one that was given up may still be at it.
        found = []
        return dumps(value, found, module.dumps), found

    def kept(made, found):
        if parts is not None:
            parts[:] = found
        return made

    made, cause = attempt(lambda: pickled_by(pickle))
    if cause is None and b"__main__" not in made[0]:
        return _of_main(kept(*made))
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = None
    if cloudpickle is None:
        if cause is not None:
            raise TaskPicklingError(
                f"{_short(told)} cannot be pickled: {cause}; with cloudpickle installed, "
                "lambdas and local functions can be"
            ) from cause
        if _main_data() is None:
            raise TaskPicklingError(
                "a function or class of an interactive session, of standard input or of a "
                "__main__.py goes to workers by cloudpickle: pip install cloudpickle"
            )
        return _worker.NEEDS_MAIN + kept(*made)
    made, cause = attempt(lambda: pickled_by(cloudpickle))
    if cause is not None:
        raise TaskPicklingError(f"{_short(told)} cannot be pickled: {cause}") from cause
    return _of_main(kept(*made))


def _of_main(pickled):
    """Return a pickle with a mark if it names what only the main module has.

    In a worker, and in a process that `multiprocessing` has started without a fork, the main module
    is one that was imported as ``__mp_main__``, and so are the names of what it has.
    """
    if b"__mp_main__" in pickled and sys.modules["__main__"].__name__ == "__mp_main__":
        return _worker.NEEDS_MAIN + pickled
    return pickled


def _short(value):
    try:
        text = repr(value)
    except Exception as error:
        text = f"a {type(value).__name__} (its repr raised {type(error).__name__})"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _main_data():
    """Return what a worker needs to import the main module; `None` if it cannot be imported."""
    main = sys.modules.get("__main__")
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is None:
        # Standard input has a name in angle brackets.
        if not os.path.isfile(getattr(main, "__file__", None) or ""):
            return None
    elif name.rpartition(".")[2] == "__main__":
        # That of a package, a folder or an archive, which runs whatever imports it.
        return None
    from multiprocessing import spawn

    return spawn.get_preparation_data("syncline-worker")


def worker_arguments(start):
    """Return the command line of a worker, behind the interpreter."""
    main = _main_data()
    if main is not None:
        # What says nothing of the module: secrets, and what the worker has anyway.
        keep = ("init_main_from_name", "init_main_from_path", "sys_path", "sys_argv", "dir")
        main = {name: main[name] for name in keep if name in main}
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; from syncline._worker import main; "
        f"main({start!r}, {main!r})"
    )
    return [*subprocess._args_from_interpreter_flags(), "-c", code]


def attempt(call, caught=Exception):
    """Return what a function returns, and `None`; or `None`, and what it raises.

    What is raised in the main thread and not in another is of the handler of a signal, and raised
    here.
    """
    try:
        return call(), None
    except caught as error:
        if in_main() and not _fails(call, caught):
            raise
        return None, error


def _fails(call, caught):
    """Return whether a function raises in another thread, or does not return there."""
    returned, ended = [], threading.Lock()
    ended.acquire()

    def run():
        try:
            with contextlib.suppress(caught):
                returned.append(call())
        finally:
            ended.release()

    try:
        # No `Thread`: an interrupt of its `start` may leave half of one.
        _thread.start_new_thread(run, ())
    except RuntimeError:  # the interpreter ends
        return True
    # It may wait for a module that the main thread is about to import.
    ended.acquire(timeout=_PATIENCE)
    return not returned
