"""Groups needs that are alike, and gives them what a program chose for their class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...estimators.sensitivity.choices import Choices
from .ideal import Class, Ideal, Machine, ideal
from .mechanism import Prices
from .needs import Need
from .room import NodeRoom

LEAST = 1e-6  # parts of a job below this are errors of rounding
ONE = ""  # in place of a GPU type, where the nodes are of one


class Chosen:
    """What a program chose for needs on the nodes of one type.

    choice: position in `Choices` by need. Needs of a class get the larger choices first, in their order.
    """

    def __init__(self, needs: Sequence[Need], room: NodeRoom, *, whole: bool) -> None:
        groups: dict[Choices, list[int]] = {}
        for at, need in enumerate(needs):
            groups.setdefault(need.choices, []).append(at)
        totals = room.totals
        machine = Machine(float(totals.gpus.sum()), float(totals.cpus.sum()), float(totals.memory_gib.sum()))
        # In an order of their own, so that equal groups are one program, which is not solved twice.
        classes = tuple(sorted(((one, len(at)) for one, at in groups.items()), key=lambda pair: pair[0].content))
        found = _ideal(classes, machine, whole) if classes else None
        self.choice = [need.choices.low for need in needs]
        self.prices = Prices()
        if found is not None:
            self.prices = Prices(found.cpu[ONE], found.gib[ONE], found.objective)
            for number, (one, count) in enumerate(classes):
                for place, k in zip(groups[one], _of_class(found, number, count, one.low), strict=True):
                    self.choice[place] = k


@lru_cache(maxsize=512)
def _ideal(classes: tuple[tuple[Choices, int], ...], machine: Machine, whole: bool) -> Ideal | None:
    return ideal([Class(count, {ONE: one}, {}) for one, count in classes], {ONE: machine}, whole=whole)


def _of_class(found: Ideal, number: int, count: int, low: int) -> list[int]:
    """Return the choice of each job of a class, fastest first. A part of a job counts as a job.

    It steps down where it does not fit. `low`: the choice of those for whom none is left.
    """
    columns = zip(found.columns, found.counts.tolist(), strict=True)
    mine = sorted(((k, n) for (of, _, k), n in columns if of == number and n > LEAST), reverse=True)
    chosen: list[int] = []
    carried = 0.0
    for k, n in mine:
        whole = int(n + carried + 1 - LEAST)
        carried += n - whole
        chosen += [k] * whole
    chosen = chosen[:count]
    return chosen + [low] * (count - len(chosen))
