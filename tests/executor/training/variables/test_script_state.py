"""Containers that a script makes while it trains are of their kind in a newcomer, too."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.variables.own_variables import OwnVariables

from tests.support.ranks import on_ranks

# All of these run on a rank, where a script's modules are those of one test: a session looks into each of them.


def containers(state: dict[str, Any] | None) -> tuple[list[Any], dict[str, Any]]:
    """Return what variables hold in the process that trains, or with its state in a newcomer; and the state."""
    window, counts, ordered, longer, known = None, None, None, deque([9.0], 2), deque([9.0], 2)
    unnamed, held = None, known
    mine = OwnVariables()
    mine.begin()
    if state is None:
        mine.begin_pass(0, 1)
        window, counts, ordered = deque([0.5, 0.25], 2), defaultdict(int, a=1), OrderedDict(b=1, a=2)
        longer, unnamed = deque([1.0, 2.0, 3.0], 3), defaultdict(lambda: 0, a=1)
        known.append(0.5)
    else:
        mine.load(state)
        mine.begin_pass(0, 1)
    told = mine.state(in_pass=False, pass_samples=0)
    return [window, counts, ordered, longer, known, held is known, dict(unnamed)], told


def test_a_newcomer_has_containers_of_the_same_kind_with_the_same_in_them() -> None:
    def script(_: Group) -> list[list[Any]]:
        there, state = containers(None)
        return [there, containers(state)[0]]

    ((there, newcomer),) = on_ranks(1, script)
    assert newcomer == there
    assert list(map(type, newcomer)) == [deque, defaultdict, OrderedDict, deque, deque, bool, dict]
    window, counts, _, longer, *_ = newcomer
    window.append(0.125)
    counts["new"] += 1
    assert (list(window), counts["new"], longer.maxlen) == ([0.25, 0.125], 1, 3)


def test_states_of_earlier_versions_know_no_kinds() -> None:
    def script(_: Group) -> list[Any]:
        _, state = containers(None)
        for frame in state["now"]:
            frame.pop("kinds", None)
        return containers(state)[0]

    (newcomer,) = on_ranks(1, script)
    assert newcomer[0] == [0.5, 0.25]


class Watch:
    """Keeps what a script makes of it while it trains."""

    def __init__(self) -> None:
        self.windows: dict[str, Any] = {}


def nested(state: dict[str, Any] | None) -> tuple[list[Any], dict[str, Any]]:
    """Do as `containers`, with containers inside of others."""
    by_name: dict[Any, Any] = {}
    rows: list[Any] = []
    watch = Watch()
    mine = OwnVariables()
    mine.begin()
    if state is None:
        mine.begin_pass(0, 1)
        by_name["loss"] = deque([0.5, 0.25], 2)
        by_name[3] = {"inner": (OrderedDict(b=1, a=2), defaultdict(int, a=1))}
        rows += [deque([1.0], 1), [deque([2.0, 3.0], 2)]]
        watch.windows["acc"] = deque([0.125], 1)
    else:
        mine.load(state)
        mine.begin_pass(0, 1)
    told = mine.state(in_pass=False, pass_samples=0)
    return [by_name, rows, watch.windows], told


def test_containers_within_others_are_of_their_kind_in_a_newcomer_and_in_whoever_comes_after_it() -> None:
    def script(_: Group) -> list[list[Any]]:
        there, state = nested(None)
        newcomer, again = nested(state)
        return [there, newcomer, nested(again)[0]]

    ((there, newcomer, third),) = on_ranks(1, script)
    for by_name, rows, windows in (there, newcomer, third):
        ordered, counts = by_name[3]["inner"]
        windowed = [by_name["loss"], *rows, windows["acc"]]
        assert [by_name, rows, windows] == there
        assert [type(one) for one in (*windowed, ordered, counts)] == [
            deque,
            deque,
            list,
            deque,
            OrderedDict,
            defaultdict,
        ]
        assert (rows[1][0].maxlen, list(ordered), counts["new"]) == (2, ["b", "a"], 0)
        del counts["new"]
