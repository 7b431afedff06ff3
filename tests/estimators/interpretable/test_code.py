"""A model as C, JavaScript, Python and SQL says what the model says, and has whole thresholds where it can."""

from __future__ import annotations

import ctypes
import json
import math
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coadapt.estimators.interpretable import tree_fit
from coadapt.estimators.interpretable.code import exported
from coadapt.estimators.interpretable.corrections import Model
from coadapt.estimators.interpretable.table import Feature, Floats, Table

from tests.support.interpretable import additive, rows, table, tree

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no JavaScript engine")


def in_c(model: Model, asked: Floats, folder: Path, whole: bool = False) -> list[float]:
    source, built = folder / "model.c", folder / "model.so"
    source.write_text(exported(model, "c"))
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", built, source, "-lm"], check=True)
    function = ctypes.CDLL(str(built)).predict
    function.restype = ctypes.c_int if model.classes and "\nint predict" in source.read_text() else ctypes.c_double
    kind = ctypes.c_longlong if whole else ctypes.c_double
    return [function((kind * len(row))(*(int(v) if whole else v for v in row))) for row in asked]


def in_javascript(model: Model, asked: Floats, folder: Path) -> list[Any]:
    lines = [[None if math.isnan(value) else value for value in row] for row in asked.tolist()]
    program = exported(model, "javascript") + (
        f"const rows = {json.dumps(lines)}.map(r => r.map(v => v === null ? NaN : v));\n"
        "console.log(JSON.stringify(rows.map(predict)));\n"
    )
    path = folder / "model.js"
    path.write_text(program)
    return json.loads(subprocess.run(["node", path], check=True, capture_output=True, text=True).stdout)


def in_python(model: Model, asked: Floats) -> list[Any]:
    names: dict[str, Any] = {}
    exec(exported(model, "python"), names)
    return [names["predict"](row) for row in asked.tolist()]


def in_sql(model: Model, asked: Floats) -> list[Any]:
    base = sqlite3.connect(":memory:")
    columns = ", ".join('"' + one.name.replace('"', '""') + '"' for one in model.features)
    base.execute(f"CREATE TABLE jobs (id INTEGER PRIMARY KEY, {columns})")
    base.create_function("EXP", 1, math.exp)
    lines = [[None if math.isnan(value) else value for value in row] for row in asked.tolist()]
    marks = ", ".join("?" * len(model.features))
    base.executemany(f"INSERT INTO jobs ({columns}) VALUES ({marks})", lines)
    return [one for (one,) in base.execute(f"SELECT {exported(model, 'sql')} FROM jobs ORDER BY id")]


@needs_cc
@needs_node
@pytest.mark.parametrize("link", ["identity", "logit"])
def test_a_sum_says_the_same_in_every_language(link: str, tmp_path: Path) -> None:
    model, asked = additive(link=link), rows()  # type: ignore[arg-type]
    wanted = model.predict(asked)
    for found in (in_c(model, asked, tmp_path), in_javascript(model, asked, tmp_path), in_python(model, asked)):
        assert (np.array(found) == wanted).all() if link == "identity" else found == pytest.approx(wanted)
    assert in_sql(model, asked) == pytest.approx(wanted)


@needs_cc
@needs_node
def test_a_tree_says_the_same_in_every_language(tmp_path: Path) -> None:
    of = table(300)
    grown = tree_fit.fit(of)
    wanted = grown.predict(of.rows)
    for found in (
        in_c(grown, of.rows, tmp_path), in_javascript(grown, of.rows, tmp_path), in_python(grown, of.rows),
        in_sql(grown, of.rows),
    ):  # fmt: skip
        assert (np.array(found) == wanted).all()


@needs_cc
@needs_node
def test_a_tree_of_classes_names_them(tmp_path: Path) -> None:
    classes = ("it's short", 'very "long" \\ \N{GRINNING FACE}')
    of = table(300, classes=classes)
    grown = tree_fit.fit(of, 0.01)
    wanted = grown.predict(of.rows).astype(int)
    assert in_c(grown, of.rows, tmp_path) == wanted.tolist()
    names = [classes[one] for one in wanted]
    for found in (in_javascript(grown, of.rows, tmp_path), in_python(grown, of.rows), in_sql(grown, of.rows)):
        assert found == names


@needs_cc
def test_pr_16_whole_features_give_a_program_of_whole_numbers(tmp_path: Path) -> None:
    asked = np.array([(a, b) for a in range(40) for b in range(15)], float)
    target = (asked[:, 0] > 20).astype(float) + (asked[:, 1] > 7)
    of = Table((Feature("a"), Feature("b")), asked, target, "y", ("n", "m", "l"))
    grown = tree_fit.fit(of)
    text = exported(grown, "c")
    assert "const long long *x" in text
    assert all(part in text for part in ("x[0] <= 20)", "x[1] <= 7)"))
    assert in_c(grown, asked, tmp_path, whole=True) == grown.predict(asked).astype(int).tolist()


@needs_cc
def test_a_whole_feature_that_may_be_missing_gives_a_program_of_real_numbers(tmp_path: Path) -> None:
    asked = np.array([1.0, 2.0, np.nan] * 20)[:, None]
    of = Table((Feature("gpus"),), asked, np.where(np.isnan(asked[:, 0]), 7.0, 3.0), "y")
    grown = tree_fit.fit(of)
    assert grown.predict(np.array([[9.0], [np.nan]])).tolist() == [3.0, 7.0]
    assert in_c(grown, asked, tmp_path) == in_python(grown, asked) == grown.predict(asked).tolist()


def test_a_tree_deeper_than_languages_accept_is_refused() -> None:
    shape = [(0, float(n), 2 * n + 1, 2 * n + 2) for n in range(95)]
    nodes = [row for n in range(95) for row in ((-1, 0.0, -1, -1), shape[n + 1] if n < 94 else (-1, 0.0, -1, -1))]
    deep = tree([shape[0], *nodes], [0.0] * 191, [0.0] * 191)
    with pytest.raises(ValueError, match=r"^tree: is 95 tests deep, and at most 90 can be exported; prune it$"):
        exported(deep, "python")


@pytest.mark.parametrize("make", [additive, lambda: tree_fit.fit(table(50))])
def test_names_that_are_strange_break_no_program(make: Callable[[], Model], tmp_path: Path) -> None:
    from dataclasses import replace

    model = make()
    odd = [replace(one, name=f'{one.name}" */ \n// {number}') for number, one in enumerate(model.features)]
    model = replace(model, features=tuple(odd), target="x\n\\")
    asked = rows(5) if len(odd) == 3 else table(5).rows
    assert in_python(model, asked) == pytest.approx(model.predict(asked))
    assert in_sql(model, asked) == pytest.approx(model.predict(asked))
    if shutil.which("cc"):
        assert in_c(model, asked, tmp_path) == pytest.approx(model.predict(asked))


def test_other_languages_and_names_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^language: 'rust' is not accepted, must be one of c, javascript, python, sql$"
    ):
        exported(additive(), "rust")
    for name in ("1x", "a b", "return", "class"):
        with pytest.raises(
            ValueError, match=rf"^name: '{name}' is not accepted, must be a name that a function can"
        ):
            exported(additive(), "c", name)
