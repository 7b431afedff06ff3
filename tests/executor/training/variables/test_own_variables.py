"""What replicas keep in variables of their own is one process's when replicas come and go, however fast."""

from __future__ import annotations

from typing import Any

from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.variables.own_variables import OwnVariables
from coadapt.executor.training.variables.script_frames import reach

from tests.support.ranks import on_ranks


def test_a_newcomer_that_is_regrouped_before_it_has_come_to_its_place_costs_nobody_a_sum() -> None:
    def act(group: Group) -> Any:
        total, mine = 0, OwnVariables()
        mine.begin()
        if group.rank == 0:
            total = 28
            (path,) = (path for path in reach((int,)).leaves if path.endswith("/total"))
            mine._sums.known.over_samples.add(path)
            mine.look_as_one(None, 8.0)
        (state, _) = group.gather_objects(mine.state(in_pass=True, pass_samples=8) if group.rank == 0 else None)
        if group.rank == 0:
            mine.take_share(0, 2)
        else:
            mine.load(state)
        shared = total
        mine.look_as_one(group, 0.0)  # the next group is there before the first batch of this one
        now = mine.state(in_pass=True, pass_samples=8)["now"]
        return shared, [frame["variables"]["total"] for frame in now if "total" in frame["variables"]]

    first, second = on_ranks(2, act)
    assert first == (14, [28])
    assert second == (0, [28])
