"""`coadapt models fit`: fits a model to a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .models import Json, _print_json, _told
from .plain import printable, say

if TYPE_CHECKING:
    from ..estimators.interpretable.choice import Requirement
    from ..estimators.interpretable.table import Table
    from ..estimators.interpretable.tuning import Searching, Tuned


def fit(
    csv: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Rows, with names in the first line.")],
    target: Annotated[str, typer.Option(help="The column that is predicted.")],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL.json", help="Where the model is kept.")],
    family: Annotated[
        Literal["additive", "tree", "auto"], typer.Option(help="auto: what serves the requirement best.")
    ] = "auto",
    time: Annotated[str | None, typer.Option(help="The column of times, by which rows are held back.")] = None,
    category: Annotated[list[str] | None, typer.Option(help="A column of names; repeatable.")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A column that is not used; repeatable.")] = None,
    budget: Annotated[int, typer.Option(help="Settings that are tried; 1: the usual ones.")] = 10,
    lambda_: Annotated[float, typer.Option("--lambda", help="What complexity costs.")] = 0.0,
    gamma: Annotated[float, typer.Option(help="The power that complexity is taken to.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Of chance.")] = 0,
    performance: Annotated[float | None, typer.Option(help="auto: at least so good.")] = None,
    microseconds: Annotated[float | None, typer.Option(help="auto: time of a prediction, at most.")] = None,
    kilobytes: Annotated[float | None, typer.Option(help="auto: size of the file, at most.")] = None,
    fit_s: Annotated[float | None, typer.Option(help="auto: seconds of fitting, at most.")] = None,
    as_json: Json = False,
) -> None:
    """Fit a model to a CSV file; corrections of a model that is there already are kept."""
    from ..estimators.interpretable import csv_table, model_file
    from ..estimators.interpretable.choice import Requirement
    from ..estimators.interpretable.model_file import Kept
    from ..estimators.interpretable.tuning import Searching
    from .model_places import kind_of

    with _told():
        how = Searching(budget, lambda_, gamma, seed)
        wanted = Requirement(performance, microseconds, None if kilobytes is None else 1000 * kilobytes, fit_s)
        changes = model_file.read(out).corrections if out.exists() else ()
        table = csv_table.read(csv, target, time=time, categories=category or (), leave_out=leave_out or ())
        tuned = _tuned(table, family, wanted, how)
        about = {"rows": len(table.target), "performance": tuned.performance, "trials": len(tuned.found.trials)}
        kept = Kept(tuned.model, changes, about)
        _ = kept.model  # corrections must go with the new fit
        model_file.write(out, kept)
    if as_json:
        _print_json({"path": str(out), "kind": kind_of(tuned.model), **about, "corrections": len(changes)})
        return
    good = (
        f"{tuned.performance:.1%} right"
        if table.classes
        else f"the mean error is {-tuned.performance:.1%} of what the median alone makes"
    )
    kept_too = f"; {len(changes)} correction{'s are' if len(changes) > 1 else ' is'} kept" if changes else ""
    if kept.waiting:
        kept_too += f", and this fit has no place for {len(kept.waiting)} of them"
    say(printable(f"{out}: {kind_of(tuned.model)}; on rows held back: {good}{kept_too}"))


def _tuned(table: Table, family: str, wanted: Requirement, how: Searching) -> Tuned:
    from ..estimators.interpretable.choice import chosen
    from ..estimators.interpretable.tuning import tuned_additive, tuned_tree

    if family == "tree":
        return tuned_tree(table, how)
    return tuned_additive(table, how) if family == "additive" else chosen(table, wanted, how).tuned
