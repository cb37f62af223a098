"""The examples of the documentation run: of docstrings, and of the book."""

import doctest
import importlib
import inspect
import os
import pathlib
import re

import pytest
import syncline

BOOK = pathlib.Path(__file__).parents[3] / "docs/book/src/python.md"
NOTEBOOKS = pathlib.Path(__file__).parents[1] / "notebooks"
README = pathlib.Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize(
    "module", ["", "._functions", "._kernel", "._pool", "._recording", "._shared", "._sweep"]
)
def test_docstrings(module):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    ran = doctest.testmod(importlib.import_module(f"syncline{module}"), optionflags=flags)
    assert ran.failed == 0 and ran.attempted > 0


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(BOOK, marks=pytest.mark.full("the book's sweeps compute for 20 s")),
        README,
    ],
)
@pytest.mark.filterwarnings("ignore::syncline.ConvergenceWarning")
def test_pages(page, tmp_path, monkeypatch):
    if not page.exists():
        pytest.skip(f"{page} is not here")
    monkeypatch.chdir(tmp_path)
    # As one script, of which the lines are those of the page.
    text = page.read_text()
    kept, code = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            code = line == "```python"
            kept.append("")
        else:
            kept.append(line if code else "")
    exec(compile("\n".join(kept), page, "exec"), {"__name__": "page"})


@pytest.mark.full("a notebook has an interpreter of its own, and computes for 10 s")
@pytest.mark.parametrize("name", ["sweeps", "pools"])
def test_notebooks(name, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    if name == "pools":
        pytest.importorskip("cloudpickle")
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    shown = [
        kind for c in notebook.cells for o in c.get("outputs", []) for kind in o.get("data", {})
    ]
    if name == "sweeps":
        assert shown.count("image/svg+xml") == 2 and "text/html" in shown


def test_every_public_name_has_a_docstring_of_the_kind_of_numpy():
    for name in syncline.__all__:
        value = getattr(syncline, name)
        assert inspect.getdoc(value), name
        if inspect.isfunction(value):
            doc = inspect.getdoc(value)
            assert re.search(r"^Parameters\n-+$", doc, re.MULTILINE), name
            for parameter in inspect.signature(value).parameters.values():
                if parameter.kind is not parameter.VAR_KEYWORD:
                    assert re.search(rf"^[^:\n]*\b{parameter.name}\b", doc, re.MULTILINE), (
                        name,
                        parameter.name,
                    )


def test_every_name_is_where_it_is_said_to_be():
    assert sorted(syncline.__all__) == syncline.__all__
    assert set(syncline.__all__) <= set(dir(syncline))
    with pytest.raises(AttributeError):
        syncline.nothing
    assert os.path.exists(os.path.join(os.path.dirname(syncline.__file__), "py.typed"))
