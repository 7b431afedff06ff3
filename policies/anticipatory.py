"""Teams lend idle GPUs to jobs that end before the owners can need them ("Anticipatory Resource Allocation")."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..core.wording import span
from .contract.round import Round
from .contract.traits import PolicyTraits
from .lending.book import Book, Start
from .lending.cell_lending import CellsLent, serve_dedicated_cells
from .lending.dedicated import serve_dedicated
from .lending.lending import Windows, lend_beside_needs, lend_in_bulk
from .lending.policy import Decision, LendingPolicy, Locality
from .lending.reclaiming import lend_what_is_left, serve_and_reclaim
from .lending.reserving import NewLoad
from .lending.round_books import RoundBooks
from .registry import register


class AnticipatoryOptions(BaseModel):
    """What an operator may set.

    windows_s: horizons, ascending. A job borrows if it ends within one of them. []: nobody borrows.
    reservations: what is kept back for owners. bulk: as published; blocking: what their queues could start.
    slack: so much more is kept back, as a part of it.
    stops_borrowers: whether preemptible jobs borrow freely and give back, with a checkpoint, when owners need it.
    locality: whether GPUs of a job may be anywhere, or quotas are cells of nodes. In cells borrowers lie apart
        from dedicated jobs, on nodes that come back as a whole.
    tick_s: it looks again so soon while GPUs are idle and jobs wait.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    windows_s: tuple[float, ...] = (300.0, 3600.0, 43_200.0)
    reservations: Literal["blocking", "bulk"] = "blocking"
    slack: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    stops_borrowers: bool = True
    locality: Locality = "any"
    tick_s: float = Field(default=300.0, gt=0, allow_inf_nan=False)

    @field_validator("windows_s")
    @classmethod
    def _ascending(cls, windows_s: tuple[float, ...]) -> tuple[float, ...]:
        for before, after in zip((0.0, *windows_s), windows_s, strict=False):
            if not before < after < math.inf:
                raise ValueError(f"{after:g} follows {before:g}; windows above 0 s that rise are accepted")
        return windows_s

    @model_validator(mode="after")
    def _cells_are_left_at_ends(self) -> Self:
        if self.locality == "cells" and self.stops_borrowers:
            raise ValueError("locality: cells goes with stops_borrowers=false; borrowers leave cells as they end")
        return self


@register("anticipatory")
class AnticipatoryPolicy(LendingPolicy):
    """Serves each team on its own guarantee in strict order, and lends what is idle for as long as it stays so."""

    Options = AnticipatoryOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True)

    def __init__(self, options: AnticipatoryOptions | None = None) -> None:
        self.options = options or AnticipatoryOptions()
        self.traits = replace(self.traits, preempts=self.options.stops_borrowers)
        self.stops, self.tick_s = self.options.stops_borrowers, self.options.tick_s
        self.in_cells = self.options.locality == "cells"
        self._windows = Windows(self.options.windows_s)

    def decide(self, books: RoundBooks, round: Round) -> Decision:
        found = Decision()
        for gpu_type, book in books.books.items():
            if self.in_cells:
                self._decide_in_cells(books, gpu_type, round, found)
                continue
            if self.options.stops_borrowers:
                served = serve_and_reclaim(book)
                found.starts.extend(served.starts)
                found.stops.extend(served.stops)
            else:
                found.starts.extend(serve_dedicated(book))
            found.starts.extend(self._lend(book, round))
        return found

    def _lend(self, book: Book, round: Round) -> list[Start]:
        options = self.options
        lend = lend_in_bulk if options.reservations == "bulk" else lend_beside_needs
        found = lend(book, self._windows, foreseen_load(round), options.slack)
        return [*found, *lend_what_is_left(book)] if options.stops_borrowers else found

    def _decide_in_cells(self, books: RoundBooks, gpu_type: str, round: Round, found: Decision) -> None:
        options, book, ground = self.options, books.books[gpu_type], books.ground(gpu_type)
        served = serve_dedicated_cells(book, ground)
        found.starts.extend(served.starts)
        found.no_cell.extend(served.no_cell)
        if not self._windows.hold_any(book):
            return
        on = {job.at: books.on(job.at) for pool in book.pools for job in (*pool.dedicated, *pool.borrowing)}
        on |= {start.at: dict(start.on) for start in served.starts}
        lent = CellsLent(
            book, ground, self._windows, foreseen_load(round), on,
            blocking=options.reservations == "blocking", slack=options.slack,
        )  # fmt: skip
        found.starts.extend(lent.lend())

    def without_length(self) -> str:
        return "it borrows only if it may be stopped"

    def why_safe(self, round: Round, i: int) -> str:
        if self.options.stops_borrowers and round.columns.preemptible[i]:
            return "An owner whose turn comes takes them back at a step, and it goes on later from there."
        expected = round.jobs[i].expected
        if not expected.known:
            return "Nobody knows when it ends."
        return f"It is to end within {span(expected.high_s)}, before an owner can need them."


def foreseen_load(round: Round) -> NewLoad:
    """Return what teams' new jobs will ask for, as the round is told; inf: nobody knows."""
    foreseen = round.foresight
    return lambda team, horizon_s: math.inf if foreseen is None else foreseen.new_load(team, horizon_s)
