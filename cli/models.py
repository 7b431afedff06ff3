"""`coadapt models`: reads models that were learned, explains what they say, corrects, fits and exports them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .plain import printable, say

if TYPE_CHECKING:
    from ..estimators.interpretable.corrections import Correction, Model
    from ..estimators.interpretable.table import Floats, Table

app = typer.Typer(help="Read, explain, correct, fit and export models.", rich_markup_mode=None)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Which = Annotated[str, typer.Argument(metavar="MODEL", help="A model file, or a service such as durations.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE.png", help="Draw it into this file, too.")]
Given = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A value of the row; repeatable.")
]
MOST_SHOWN = 20


@contextmanager
def _told() -> Iterator[None]:
    """Tell a ValueError as an error of the user."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _print_json(document: Any) -> None:
    from ..core.json_numbers import dumps

    say(dumps(document, indent=2))


def _write(out: Path | None, png: bytes) -> None:
    if out is None:
        return
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(png)
    except OSError as error:
        raise ValueError(f"--out: {out} cannot be written: {error.strerror or error}") from None
    say(f"written: {out}", error=True)


@app.command("list")
def list_models(
    folder: Annotated[Path | None, typer.Argument(metavar="[FOLDER]", help="A folder of model files.")] = None,
    as_json: Json = False,
) -> None:
    """Show the models that services have learned here, or those in a folder."""
    from . import model_places
    from .model_places import Found, kind_of

    with _told():
        if folder is None:
            every = list(model_places.of_services())
        else:
            from ..estimators.interpretable import model_file

            every = [Found(path.stem, path, model_file.read(path)) for path in sorted(folder.glob("*.json"))]
    if as_json:
        _print_json([
            {"name": one.name, "path": str(one.path), "kind": kind_of(one.kept.fitted),
             "target": one.kept.fitted.target, "corrections": len(one.kept.corrections)}
            for one in every
        ])  # fmt: skip
        return
    for one in every:
        changes = len(one.kept.corrections)
        changed = f", {changes} correction{'s' * (changes != 1)}" if changes else ""
        say(printable(f"{one.name}: {one.kept.fitted.target}, {kind_of(one.kept.fitted)}{changed} ({one.path})"))
    if not every:
        where = model_places.learned_dir() if folder is None else folder
        say(f"{where}: no model that one can read is here; services have one with the option model=additive",
            error=True)  # fmt: skip


@app.command()
def show(
    which: Which,
    term: Annotated[
        str | None, typer.Option(metavar="NAME[,NAME]", help="The term of one feature, or of a pair.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Show what counts in a model, one of its terms, or its rules."""
    from . import model_places
    from .model_text import as_document, lines_of, lines_of_term

    with _told():
        found = model_places.found(which)
        model = found.kept.model
        chosen, before = _terms(found.kept.fitted, model, term)
        if as_json:
            _print_json(as_document(model, chosen))
        elif chosen is not None:
            say("\n".join(map(printable, lines_of_term(model, chosen))))
        else:
            say("\n".join(map(printable, lines_of(model, found.kept))))
        if out is not None:
            from ..estimators.interpretable.additive import AdditiveModel
            from ..estimators.interpretable.tree import TreeModel
            from . import model_pictures

            if chosen is not None and isinstance(model, AdditiveModel):
                _write(out, model_pictures.term(model, chosen, before))
            elif isinstance(model, TreeModel):
                _write(out, model_pictures.tree(model))
            else:
                _write(out, model_pictures.importances(model))


def _terms(fitted: Model, model: Model, names: str | None) -> tuple[Any, Any]:
    """Return the term of these features as it is used, and as it was fitted if that differs."""
    from ..estimators.interpretable.additive import AdditiveModel
    from ..estimators.interpretable.table import position

    if names is None:
        return None, None
    if not isinstance(model, AdditiveModel) or not isinstance(fitted, AdditiveModel):
        raise ValueError("--term: a tree has no terms; leave it out to see the rules")
    wanted = {position(model.features, name.strip()) for name in names.split(",")}
    now, then = (next((t for t in of.terms if set(t.features) == wanted), None) for of in (model, fitted))
    if now is None:
        accepted = "; ".join(model.name_of(one).replace(" and ", ",") for one in model.terms)
        raise ValueError(f"--term: {names} is no term of this model; accepted: {accepted}")
    same = then is None or (then.scores.shape == now.scores.shape and bool((then.scores == now.scores).all()))
    return now, None if same else then


@app.command()
def explain(
    which: Which,
    given: Given = None,
    rows: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Known cases: explain one, or look for near ones.")
    ] = None,
    row: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The N-th case of --rows is the one explained.")
    ] = None,
    wanted: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Show the nearest cases of --rows that came out as this.")
    ] = None,
    neighbours: Annotated[int, typer.Option("-k", help="How many of them.")] = 3,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Explain what a model says of one case, and which known cases came out otherwise."""
    from ..estimators.interpretable.csv_table import row_of
    from . import model_places
    from .model_text import explanation, lines_explained

    with _told():
        found = model_places.found(which)
        model = found.kept.model
        pairs = [_pair("--set", text) for text in given or ()]
        cases = None if rows is None else _cases(rows, model)
        if row is not None:
            if cases is None:
                raise ValueError("--row: goes with --rows FILE.csv")
            if row > len(cases.target):
                raise ValueError(f"--row: {row} is not accepted, must be from 1 to {len(cases.target)}")
            case = cases.rows[row - 1].copy()
        elif pairs:
            case = row_of(model.features, pairs)
        else:
            raise ValueError("give the case: --set NAME=VALUE, or --rows FILE.csv with --row N")
        near = None if wanted is None else _near(model, cases, case, wanted, neighbours)
        told = explanation(model, case, near)
        if as_json:
            _print_json(told)
        else:
            say("\n".join(map(printable, lines_explained(model, case, near))))
        if out is not None:
            from ..estimators.interpretable.additive import AdditiveModel
            from . import model_pictures

            if not isinstance(model, AdditiveModel):
                raise ValueError("--out: a tree explains by its path; `coadapt models show --out` draws the tree")
            _write(out, model_pictures.explained(model.explain(case), model.target))


def _cases(path: Path, model: Model) -> Table:
    """Return known cases with the model's own columns, in its order and with its codes."""
    from ..estimators.interpretable.csv_table import of_model

    return of_model(path, model.features, model.target, model.classes)


def _near(model: Model, cases: Table | None, case: Floats, wanted: str, k: int) -> Sequence[Any]:
    from ..estimators.interpretable.counterfactual import nearest

    if cases is None:
        raise ValueError("--wanted: goes with --rows FILE.csv")
    if not model.classes:
        raise ValueError("--wanted: the model predicts a number; counterfactuals are of classes")
    if wanted not in model.classes:
        raise ValueError(f"--wanted: {wanted!r} is no class; accepted: {', '.join(model.classes)}")
    return nearest(model.features, cases.rows, cases.target, case, float(model.classes.index(wanted)), k)


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"{option}: {text} is not of the form NAME=VALUE")
    return name, value


@app.command()
def constrain(
    which: Which,
    monotone: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=decreasing]", help="A feature that never turns back; repeatable."),
    ] = None,
    pairs: Annotated[
        Literal["refuse", "drop", "keep"], typer.Option(help="What becomes of pair terms that would undo it.")
    ] = "refuse",
    by_hand: Annotated[
        list[str] | None,
        typer.Option(
            "--by-hand", metavar="WHERE=VALUE", help='Such as "gpus:1:2=0.5" or "owner:bob=1"; repeatable.'
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take back all corrections first.")] = False,
) -> None:
    """Correct a model; the correction is kept beside the fit, and outlives the next one."""
    from ..estimators.interpretable import corrections, model_file
    from ..estimators.interpretable.model_file import Kept
    from . import model_places
    from .model_text import changed_lines

    with _told():
        found = model_places.found(which)
        more = [*_monotone(monotone or (), pairs), *(_by_hand(text) for text in by_hand or ())]
        if not more and not undo:
            raise ValueError("give --monotone, --by-hand or --undo")
        kept = Kept(found.kept.fitted, (*(() if undo else found.kept.corrections), *more), found.kept.about)
        base = Kept(found.kept.fitted, () if undo else found.kept.corrections).model
        corrections.check(base, more)
        lines = changed_lines(found.kept.model, kept.model)
        if found.service:
            from ..core.json_numbers import dumps

            option = f"{found.service}.corrections={dumps(corrections.to_json(kept.corrections))}"
            say("\n".join([*map(printable, lines), "a service keeps to it from its next start on, with"]))
            say(f"  --service-option '{option}'")
            return
        model_file.write(found.path, kept)
        say("\n".join(map(printable, lines)))


def _monotone(texts: Sequence[str], pairs: Literal["refuse", "drop", "keep"]) -> Iterator[Correction]:
    from ..estimators.interpretable.corrections import Monotone

    for text in texts:
        name, _, direction = text.partition("=")
        if direction not in ("", "increasing", "decreasing"):
            raise ValueError(
                f"--monotone: {text}: {direction!r} is not accepted, must be increasing or decreasing"
            )
        yield Monotone(name, "decreasing" if direction == "decreasing" else "increasing", pairs)


def _by_hand(text: str) -> Correction:
    """Return `gpus:1:2,owner:bob=0.5` as a correction."""
    from ..estimators.interpretable.corrections import ByHand

    where, value = _pair("--by-hand", text)
    within: dict[str, Any] = {}
    for part in where.split(","):
        name, *ends = part.split(":")
        try:
            if len(ends) == 2:
                low, high = (float(end) if end else default for end, default in zip(ends, _OPEN, strict=True))
                within[name] = (low, high)
            elif len(ends) == 1 and ends[0]:
                within[name] = ends[0]
            else:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"--by-hand: {part} is not accepted, must be NAME:LOWEST:HIGHEST, NAME:CATEGORY or NAME:missing"
            ) from None
    try:
        return ByHand(within, float(value))
    except ValueError:
        return ByHand(within, value)


_OPEN = (float("-inf"), float("inf"))


@app.command()
def export(
    which: Which,
    language: Annotated[str, typer.Option(help="c, javascript, python or sql.")] = "c",
    name: Annotated[str, typer.Option(help="The function's name.")] = "predict",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it into this file.")] = None,
) -> None:
    """Print a model as a program text that needs nothing of Coadapt."""
    from ..estimators.interpretable.code import exported
    from . import model_places

    with _told():
        text = exported(model_places.found(which).kept.model, language, name)
        if out is None:
            say(text.rstrip("\n"))
        else:
            _write(out, text.encode())
