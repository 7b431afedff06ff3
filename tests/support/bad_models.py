"""What can be wrong with models, each with the one sentence that its user reads.

`tests/cli/test_bad_models.py` holds every row; `benchmarks/bad_input.py` prints them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.cli.main import run
from coadapt.estimators.interpretable import model_file, tree_fit
from coadapt.estimators.interpretable.model_file import Kept

from tests.support.interpretable import additive, table

DATA = "fit {dir}/jobs.csv --target hours --out {dir}/new.json"


@dataclass(frozen=True)
class BadModel:
    """What is wrong, the words behind `coadapt models`, and the sentence. {dir}: the folder of the user's files.

    text: a table that stands in {dir}/bad.csv.
    """

    what: str
    words: str
    error: str
    text: str = ""

    def answer(self, folder: Path) -> str:
        """Return what the command says, with {dir} for the folder."""
        files(folder)
        (folder / "bad.csv").write_text(self.text)
        told = io.StringIO()
        with redirect_stderr(told), redirect_stdout(io.StringIO()):
            status = run(["models", *self.words.format(dir=folder).split(" ")])
        line = told.getvalue().removeprefix("coadapt: ").strip().replace(str(folder), "{dir}")
        return line if status == 2 else f"status {status}: {line}"


def jobs(path: Path, rows: int = 200, classes: bool = False) -> Path:
    """Write jobs as CSV: load, gpus, owner by name, share, when, and how long or which kind."""
    of = table(rows, classes=("long", "short") if classes else ())
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["load", "gpus", "owner", "share", "when", "hours"])
        for n, (row, answer) in enumerate(zip(of.rows, of.target, strict=True)):
            load = "" if np.isnan(row[0]) else row[0]
            said = of.classes[int(answer)] if classes else answer
            writer.writerow([load, int(row[1]), of.features[2].categories[int(row[2])], row[3], 60 * n, said])
    return path


def files(folder: Path) -> None:
    """Write a table and models: sound ones, and files of every kind that is refused."""
    jobs(folder / "jobs.csv", 30)
    jobs(folder / "classes.csv", 30, classes=True)
    model_file.write(folder / "sum.json", Kept(additive(pairs=0)))
    model_file.write(folder / "pairs.json", Kept(additive(pairs=1)))
    model_file.write(folder / "tree.json", Kept(tree_fit.fit(table(30, classes=("long", "short")))))
    whole = (folder / "sum.json").read_text()
    (folder / "torn.json").write_text(whole[: len(whole) // 2])
    (folder / "changed.json").write_text(whole.replace("hours", "days"))
    (folder / "version.json").write_text(whole.replace('"version":1', '"version":7'))
    with (folder / "large.json").open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    (folder / "unsorted.json").write_text(_changed(whole, _unsorted))
    (folder / "nan.json").write_text(whole.replace('"mean":', '"mean":NaN,"was":'))


def _changed(text: str, change: Callable[[dict[str, Any]], None]) -> str:
    document = json.loads(text)
    change(document)
    content = {key: document[key] for key in ("model", "corrections", "about")}
    return json.dumps({**document, "sha256": model_file.digest(content)})


def _unsorted(document: dict[str, Any]) -> None:
    document["model"]["terms"][0]["edges"][0].reverse()


def _table(what: str, text: str, error: str) -> BadModel:
    return BadModel(what, "fit {dir}/bad.csv --target hours --out {dir}/new.json", error, text)


BAD_MODELS = [
    BadModel("a target that is not there", DATA.replace("hours", "hour"),
             "feature: 'hour' is unknown; the nearest is 'hours'"),
    BadModel("a budget of 0", f"{DATA} --budget 0",
             "budget: 0 is not accepted, must be a whole number of at least 1"),
    BadModel("a lambda below 0", f"{DATA} --lambda -1",
             "lambda, gamma: -1.0, 0.5 are not accepted, must be 0 or more"),
    BadModel("a bound of 0", f"{DATA} --microseconds 0", "microseconds: 0.0 is not accepted, must be above 0"),
    BadModel("a time that is none", f"{DATA} --time owner",
             "{dir}/jobs.csv: line 2: 'alice' is no time, must be seconds or ISO 8601"),
    _table("a table of nothing", "", "{dir}/bad.csv: is empty; a line of names and rows are accepted"),
    _table("a ragged table", "a,hours\n1,2\n3\n", "{dir}/bad.csv: line 3 has 1 values for 2 columns"),
    _table("a name that is there twice", "a,a,hours\n1,2,3\n",
           "{dir}/bad.csv: column 'a' is there twice; each name is accepted once"),
    _table("an empty target", "a,hours\n", "hours: is empty; at least two rows are accepted"),
    _table("a constant target", "a,hours\n1,5\n2,5\n",
           "hours: all 2 rows are 5; two different values are accepted"),
    _table("a target with a gap", "a,hours\n1,5\n2,\n", "hours: row 2 is not a finite number"),
    _table("a target with NaN", "a,hours\n1,nan\n2,3\n", "hours: row 1 is not a finite number"),
    _table("an infinite value", "a,hours\n1,1\ninf,3\n",
           "a: an infinite value is not accepted, must be finite or missing"),
    _table("nothing but a target", "hours\n1\n2\n",
           "{dir}/bad.csv: no column is left to learn from, beside hours"),
    BadModel("a table that is not there", "fit {dir}/none.csv --target x --out {dir}/new.json",
             "{dir}/none.csv: cannot be read as CSV: No such file or directory"),
    BadModel("a model that is not there", "show {dir}/none.json",
             "{dir}/none.json: cannot be read: No such file or directory"),
    BadModel("a table for a model", "show {dir}/jobs.csv",
             "{dir}/jobs.csv: is torn or no model: Expecting value: line 1 column 1 (char 0)"),
    BadModel("a model that was changed", "show {dir}/changed.json",
             "{dir}/changed.json: is torn or was changed, its digest differs"),
    BadModel("a model of another version", "show {dir}/version.json",
             "{dir}/version.json: is of version 7, and 1 is accepted"),
    BadModel("a model that is too large", "show {dir}/large.json",
             "{dir}/large.json: has 67,108,865 bytes, and at most 67,108,864 are accepted"),
    BadModel("a model with unsorted edges", "show {dir}/unsorted.json",
             "{dir}/unsorted.json: term: edges are not accepted, must be finite and in ascending order"),
    BadModel("a model with NaN", "show {dir}/nan.json",
             "{dir}/nan.json: holds NaN or infinity, which no model has"),
    BadModel("a term of an unknown feature", "show {dir}/sum.json --term gpu",
             "feature: 'gpu' is unknown; the nearest is 'gpus'"),
    BadModel("a pair that is no term", "show {dir}/sum.json --term owner,gpus",
             "--term: owner,gpus is no term of this model; accepted: load; gpus; owner"),
    BadModel("a term of a tree", "show {dir}/tree.json --term gpus",
             "--term: a tree has no terms; leave it out to see the rules"),
    BadModel("no case", "explain {dir}/sum.json",
             "give the case: --set NAME=VALUE, or --rows FILE.csv with --row N"),
    BadModel("a value without a name", "explain {dir}/sum.json --set gpus",
             "--set: gpus is not of the form NAME=VALUE"),
    BadModel("a value that is no number", "explain {dir}/sum.json --set gpus=many",
             "gpus: 'many' is not accepted, must be a number"),
    BadModel("an unknown category", "explain {dir}/sum.json --set owner=eve",
             "owner: 'eve' is no category of it; accepted: alice, bob, carol"),
    BadModel("a row of no table", "explain {dir}/sum.json --row 1", "--row: goes with --rows FILE.csv"),
    BadModel("a row beyond the table", "explain {dir}/sum.json --rows {dir}/jobs.csv --row 31",
             "--row: 31 is not accepted, must be from 1 to 30"),
    BadModel("more neighbours than rows",
             "explain {dir}/tree.json --rows {dir}/classes.csv --row 1 --wanted long -k 99",
             "k: 99 is not accepted, must be from 1 to 15, the rows whose answer is 0"),
    BadModel("a class that is none", "explain {dir}/tree.json --rows {dir}/classes.csv --row 1 --wanted x",
             "--wanted: 'x' is no class; accepted: long, short"),
    BadModel("neighbours of a number", "explain {dir}/sum.json --rows {dir}/jobs.csv --row 1 --wanted 5",
             "--wanted: the model predicts a number; counterfactuals are of classes"),
    BadModel("no correction", "constrain {dir}/sum.json", "give --monotone, --by-hand or --undo"),
    BadModel("a constraint on a category", "constrain {dir}/sum.json --monotone owner",
             "owner: is a category, which has no order; only features of numbers can be monotone"),
    BadModel("a constraint on an unknown feature", "constrain {dir}/sum.json --monotone gpu",
             "feature: 'gpu' is unknown; the nearest is 'gpus'"),
    BadModel("a constraint that a pair undoes", "constrain {dir}/pairs.json --monotone gpus",
             "gpus: the pair terms load and gpus would undo it; "
             "pairs: drop takes them out, and keep leaves them in"),
    BadModel("a direction that is none", "constrain {dir}/sum.json --monotone gpus=up",
             "--monotone: gpus=up: 'up' is not accepted, must be increasing or decreasing"),
    BadModel("a constraint on a tree", "constrain {dir}/tree.json --monotone gpus",
             "gpus: a tree has no terms to be monotone; make it an additive model"),
    BadModel("a range that is none", "constrain {dir}/sum.json --by-hand gpus=1",
             "--by-hand: gpus is not accepted, must be NAME:LOWEST:HIGHEST, NAME:CATEGORY or NAME:missing"),
    BadModel("a score that is no number", "constrain {dir}/sum.json --by-hand gpus:1:2=much",
             "value: 'much' is not accepted, must be a finite score"),
    BadModel("an answer that is no class", "constrain {dir}/tree.json --by-hand gpus:1:2=much",
             "value: 'much' is no class; accepted: long, short"),
    BadModel("another language", "export {dir}/sum.json --language fortran",
             "language: 'fortran' is not accepted, must be one of c, javascript, python, sql"),
    BadModel("a name that is none", "export {dir}/sum.json --name 1x",
             "name: '1x' is not accepted, must be a name that a function can have"),
]  # fmt: skip
