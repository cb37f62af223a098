"""The progress of work on the terminal."""

import contextlib
import sys
import time


class Bar:
    """A bar on the standard error output: ten times a second, in a file rarely."""

    def __init__(self):
        self._shown, self._next = None, 0.0
        is_shown = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
        self._period = 0.1 if is_shown else 5.0

    def __call__(self, done, text=""):
        now = time.monotonic()
        if now < self._next and done < 1:
            return
        self._next = now + self._period
        filled = int(30 * done)
        shown = f"\r[{'#' * filled}{'.' * (30 - filled)}] {done:4.0%}{text} "
        if shown != self._shown:
            self._shown = shown
            print(shown, end="", file=sys.stderr, flush=True)

    def end(self):
        """End the line of the bar."""
        if self._shown is not None:
            self._shown = None
            with contextlib.suppress(OSError, ValueError):  # it may be closed
                print(file=sys.stderr)
