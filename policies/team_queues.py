"""Peers of `anticipatory`: what other schedulers do with the idle GPUs of teams. Nothing that runs is stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .contract.round import Round
from .contract.traits import PolicyTraits
from .lending.book import Book, Start
from .lending.cell_lending import lend_all_cells, serve_dedicated_cells
from .lending.dedicated import serve_dedicated
from .lending.peers import (
    duration,
    lend_all,
    serve_max_min,
    serve_shortest,
    serve_shortest_of_all,
    serve_worst_off,
    service,
)
from .lending.policy import Decision, LendingPolicy, Locality
from .lending.round_books import RoundBooks
from .registry import register

Rule = Literal[
    "strict", "shortest_service", "shortest_job", "shortest_service_of_all", "max_min", "hived", "themis"
]
RULES: Mapping[str, Callable[[Book], list[Start]]] = {
    "strict": serve_dedicated,
    "shortest_service": partial(serve_shortest, key=service),
    "shortest_job": partial(serve_shortest, key=duration),
    "shortest_service_of_all": partial(serve_shortest_of_all, key=service),
    "max_min": serve_max_min,
    "hived": lambda book: [*serve_dedicated(book), *lend_all(book)],
}

IN_CELLS = ("strict", "hived")


class TeamQueuesOptions(BaseModel):
    """What an operator may set.

    rule: strict: each team on its own guarantee, by submission. shortest_service, shortest_job: the same, by
        GPU-time or by time. shortest_service_of_all: all teams on all GPUs. max_min: the first job of the team
        that has least, on any GPUs. hived: strict, and then whoever fits on what is idle. themis: the first job of
        the teams that are worst off, by how much longer it takes than alone.
    locality: whether GPUs of a job may be anywhere, or quotas are cells of nodes, for the rules strict and hived.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: Rule = Field(default="max_min")
    locality: Locality = "any"

    @model_validator(mode="after")
    def _rules_in_cells(self) -> Self:
        if self.locality == "cells" and self.rule not in IN_CELLS:
            raise ValueError(f"locality: cells is for the rules {', '.join(IN_CELLS)}, and not for {self.rule}")
        return self


@register("team_queues")
class TeamQueuesPolicy(LendingPolicy):
    """Starts jobs of teams by a rule that looks at no forecast."""

    Options = TeamQueuesOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False, needs_expected=True)
    waits = "It waits for its turn by the rule of the policy."

    def __init__(self, options: TeamQueuesOptions | None = None) -> None:
        self.options = options or TeamQueuesOptions()
        self.in_cells = self.options.locality == "cells"

    def decide(self, books: RoundBooks, round: Round) -> Decision:
        if self.in_cells:
            return self._decided_in_cells(books)
        if self.options.rule == "themis":
            told = round.now, round.columns.submitted_s.tolist()
            return Decision([start for book in books.books.values() for start in serve_worst_off(book, *told)])
        rule = RULES[self.options.rule]
        return Decision([start for book in books.books.values() for start in rule(book)])

    def _decided_in_cells(self, books: RoundBooks) -> Decision:
        found = Decision()
        for gpu_type, book in books.books.items():
            ground = books.ground(gpu_type)
            served = serve_dedicated_cells(book, ground)
            found.no_cell.extend(served.no_cell)
            found.starts.extend(served.starts)
            if self.options.rule == "hived":
                found.starts.extend(lend_all_cells(book, ground))
        return found
