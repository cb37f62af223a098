"""Writes the reference of the package as pages: reference.py FOLDER."""

import pathlib
import sys

import pdoc
import syncline

# Names are imported when they are used: pdoc shows those that are there.
for name in syncline.__all__:
    getattr(syncline, name)
pdoc.render.configure(docformat="numpy", show_source=False)
pdoc.pdoc("syncline", output_directory=pathlib.Path(sys.argv[1]))
