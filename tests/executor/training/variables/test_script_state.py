"""Containers that a script makes while it trains are of their kind in a newcomer, too."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

from coadapt.executor.training.variables.own_variables import OwnVariables


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
    there, state = containers(None)
    newcomer, _ = containers(state)
    assert newcomer == there
    assert list(map(type, newcomer)) == [deque, defaultdict, OrderedDict, deque, deque, bool, dict]
    window, counts, _, longer, *_ = newcomer
    window.append(0.125)
    counts["new"] += 1
    assert (list(window), counts["new"], longer.maxlen) == ([0.25, 0.125], 1, 3)


def test_states_of_earlier_versions_know_no_kinds() -> None:
    _, state = containers(None)
    for frame in state["now"]:
        frame.pop("kinds", None)
    assert containers(state)[0][0] == [0.5, 0.25]
