"""The progress of work on the terminal."""

import sys


class Bar:
    """A bar on the standard error output."""

    def __init__(self):
        self._shown = None

    def __call__(self, done, text=""):
        filled = int(30 * done)
        shown = f"\r[{'#' * filled}{'.' * (30 - filled)}] {done:4.0%}{text} "
        if shown != self._shown:
            self._shown = shown
            print(shown, end="", file=sys.stderr, flush=True)

    def end(self):
        """End the line of the bar."""
        if self._shown is not None:
            print(file=sys.stderr)
            self._shown = None
