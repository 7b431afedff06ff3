"""The options that a job had in a round, as a grid of GPU types by counts, each its worth less its price. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.schemas import OptionRow, OptionsView
from .words import short

SHADES = 5  # of options whose worth is above their price; the best of a job has the darkest


@dataclass(frozen=True)
class Cell:
    """One option. `shade`: 0 where it is not worth its price. `next`: whether it is the next better one."""

    net: float
    shade: int
    text: str
    told: str
    chosen: bool
    next: bool


@dataclass(frozen=True)
class Grid:
    """The options of a job. `answer`: what it has and what is next better, in sentences."""

    types: tuple[str, ...]
    counts: tuple[int, ...]
    cells: Mapping[tuple[str, int], Cell]
    answer: tuple[str, ...]
    round: int | None
    time_s: float | None


def why_grid(view: OptionsView) -> Grid:
    """Return the grid of a round. It has no cells where the policy weighs no options."""
    options = view["options"]
    chosen = next((one for one in options if one["chosen"]), None)
    better = _next_better(view, chosen)
    nets = [_net(one) for one in options] or [0.0]
    low, most, digits = min(nets), max(nets), _digits(nets)
    cells = {
        (one["gpu_type"], one["gpus"]): Cell(
            net=_net(one),
            shade=_shade(_net(one), low, most),
            text=_signed(_net(one), digits),
            told=f"{_named(one)}: worth {short(one['gain'])}, price {short(one['cost'])}",
            chosen=one is chosen,
            next=one is better,
        )
        for one in options
    }
    return Grid(
        types=tuple(sorted({one["gpu_type"] for one in options})),
        counts=tuple(sorted({one["gpus"] for one in options})),
        cells=cells,
        answer=tuple(_answer(chosen, better)) if options else (),
        round=view["round"],
        time_s=view["time_s"],
    )


def _next_better(view: OptionsView, chosen: OptionRow | None) -> OptionRow | None:
    """Return the option that is worth more to the job than what it has, and lacks least."""
    worth = chosen["gain"] if chosen else 0.0
    found = [one for one in view["options"] if one is not chosen and one["gain"] > worth]
    return max(found, key=lambda one: (_net(one), one["gain"]), default=None)


def _answer(chosen: OptionRow | None, better: OptionRow | None) -> list[str]:
    if chosen is None:
        found = ["It got nothing."]
    else:
        found = [f"{_named(chosen)}: worth {short(chosen['gain'])} to all, at a price of {short(chosen['cost'])}."]
    if better is None:
        return [*found, "Nothing would be worth more." if chosen else "No GPUs would be worth anything to it."]
    more = better["gain"] - (chosen["gain"] if chosen else 0.0)
    dearer = better["cost"] - (chosen["cost"] if chosen else 0.0)
    if dearer > more:
        lacks = f"worth {short(more)} more, but {short(dearer)} dearer: it lacks {short(dearer - more)}"
    else:
        lacks = f"worth {short(more)} more, but no plan of all jobs had room for it"
    return [*found, f"Next better: {_named(better)}, {lacks}."]


def _named(option: OptionRow) -> str:
    nodes = f" on {option['nodes']} nodes" if option["nodes"] > 1 else ""
    return f"{option['gpus']} {option['gpu_type']}{nodes}"


def _net(option: OptionRow) -> float:
    return option["gain"] - option["cost"]


def _shade(net: float, low: float, most: float) -> int:
    """Return how dark an option is, between the worst and the best of the job."""
    if net <= 0:
        return 0
    return SHADES if most <= low else 1 + round((SHADES - 1) * (net - low) / (most - low))


def _digits(values: Sequence[float]) -> int:
    """Return digits behind the point with which figures of one grid compare: three of the largest."""
    largest = max(abs(value) for value in values)
    return max(2 - math.floor(math.log10(largest)), 0) if largest > 0 else 0


def _signed(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return f"+{text}" if value > 0 else text.replace("-", "−")
