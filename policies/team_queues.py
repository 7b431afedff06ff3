"""Peers of `anticipatory`: what other schedulers do with the idle GPUs of teams. Nothing that runs is stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from .contract.round import Round
from .contract.traits import PolicyTraits
from .lending.book import Book, Start
from .lending.dedicated import serve_dedicated
from .lending.peers import duration, lend_all, serve_max_min, serve_shortest, serve_shortest_of_all, service
from .lending.policy import Decision, LendingPolicy
from .lending.round_books import RoundBooks
from .registry import register

Rule = Literal["strict", "shortest_service", "shortest_job", "shortest_service_of_all", "max_min", "hived"]
RULES: Mapping[str, Callable[[Book], list[Start]]] = {
    "strict": serve_dedicated,
    "shortest_service": partial(serve_shortest, key=service),
    "shortest_job": partial(serve_shortest, key=duration),
    "shortest_service_of_all": partial(serve_shortest_of_all, key=service),
    "max_min": serve_max_min,
    "hived": lambda book: [*serve_dedicated(book), *lend_all(book)],
}


class TeamQueuesOptions(BaseModel):
    """What an operator may set.

    rule: strict: each team on its own guarantee, by submission. shortest_service, shortest_job: the same, by
        GPU-time or by time. shortest_service_of_all: all teams on all GPUs. max_min: the first job of the team
        that has least, on any GPUs. hived: strict, and then whoever fits on what is idle.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: Rule = Field(default="max_min")


@register("team_queues")
class TeamQueuesPolicy(LendingPolicy):
    """Starts jobs of teams by a rule that looks at no forecast."""

    Options = TeamQueuesOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False, needs_expected=True)
    waits = "It waits for its turn by the rule of the policy."

    def __init__(self, options: TeamQueuesOptions | None = None) -> None:
        self.options = options or TeamQueuesOptions()

    def decide(self, books: RoundBooks, round: Round) -> Decision:
        rule = RULES[self.options.rule]
        return Decision([start for book in books.books.values() for start in rule(book)])
