"""What a user relies on: the published examples come out as printed (Synergy, OSDI'22; sections 8 and 13)."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.sensitivity.choices import Choices, Share, choices
from coadapt.estimators.sensitivity.table import SpeedGrid, TabulatedSensitivity
from coadapt.policies.provisioning.greedy import Greedy
from coadapt.policies.provisioning.mechanisms import Provisioning, mechanism_of
from coadapt.policies.provisioning.needs import Need, largest_first
from coadapt.policies.provisioning.optimal import Optimal, mapped, rounded
from coadapt.policies.provisioning.priced import Priced
from coadapt.policies.provisioning.proportional import Proportional
from coadapt.policies.provisioning.room import NodeRoom
from coadapt.policies.provisioning.tune import Tune, demoted
from scipy.optimize import Bounds, LinearConstraint, milp

from .support import check, places_of, provided, room, wants

SERVER = (8, 24.0, 500.0)
SHARE = (3.0, 62.5)
WHOLE = Share(3.0, 62.5, 24.0, 500.0)
# Tables 1 to 3: four jobs of 4 GPUs and their best-case demands.
VECTORS = {"J1": (23.0, 400.0), "J2": (12.0, 450.0), "J3": (1.0, 100.0), "J4": (12.0, 50.0)}


def four() -> list[Need]:
    return [Need(job, 4, wants(c, m, SHARE, 4)) for job, (c, m) in VECTORS.items()]


def held(nodes: NodeRoom) -> dict[str, tuple[float, float]]:
    return {job: (one.cpus, one.memory_gib) for job, one in nodes.held.items()}


def test_the_share_is_what_the_gpus_part_of_a_node_is() -> None:
    nodes = provided(Proportional(), room((4, 16.0, 200.0)), [Need("one", 1, wants(8, 100, (4.0, 50.0)))])
    assert held(nodes) == {"one": (4.0, 50.0)}
    nodes = provided(Proportional(), room(SERVER), [Need("four", 4, wants(20, 400, SHARE, 4))])
    assert held(nodes) == {"four": (12.0, 250.0)}


def test_tune_packs_the_jobs_of_table_3_and_nobody_gives_way() -> None:
    needs = four()
    assert [need.choices.demand for need in needs] == list(VECTORS.values())
    nodes = provided(Tune(), room(SERVER, SERVER), needs)
    check(nodes, needs)
    by_node = [sorted(jobs) for jobs in nodes.tenants]
    assert sorted(by_node) == [["J1", "J3"], ["J2", "J4"]]
    assert held(nodes) == VECTORS


def test_both_published_allocations_use_all_of_both_servers() -> None:
    for mechanism in (Proportional(), Tune()):
        nodes = provided(mechanism, room(SERVER, SERVER), four())
        assert len(nodes.held) == 4
        for free in (nodes.gpus, nodes.cpus, nodes.memory_gib):
            assert free.tolist() == pytest.approx([0, 0])


def test_the_smallest_first_would_make_two_of_them_give_way() -> None:
    class Ascending(Tune):
        def provide(self, needs, room) -> None:  # type: ignore[no-untyped-def]
            from coadapt.policies.provisioning import tune

            for need in reversed(largest_first(needs, lambda need: (need.gpus, *need.choices.demand))):
                tune._place(need, room)

    nodes = provided(Ascending(hands_out=False), room(SERVER, SERVER), four())
    assert held(nodes) == {**VECTORS, "J1": (12.0, 250.0), "J2": (12.0, 250.0)}


def test_a_split_job_has_cpus_and_memory_in_proportion_to_its_gpus() -> None:
    # One GPU is free on each of two nodes, so that 2 GPUs, 12 CPUs and 300 GiB become (1, 6, 150) twice.
    nodes = room((4, 16.0, 400.0), (4, 16.0, 400.0))
    stays = [Need(f"r{at}", 3, wants(3, 60, (4.0, 100.0), 3), before=((at, 3),), pinned=True) for at in range(2)]
    needs = [*stays, Need("split", 2, wants(12, 300, (4.0, 100.0), 2))]
    provided(Tune(), nodes, needs)
    check(nodes, needs)
    one = nodes.held["split"]
    assert one.places == ((0, 1), (1, 1))
    assert (one.cpus, one.memory_gib) == (12.0, 300.0)
    assert nodes.cpus.tolist() == [7.0, 7.0]


# --- one node, no job sensitive to memory (checks C1 and C2) -----------------------------------------------

ONE_NODE = (2, 6.0, 100.0)


def linear(knee: float) -> Choices:
    """Progress c up to a knee, whatever the memory; the share is (3, 50)."""
    cpus = np.arange(1.0, 6.0)
    speed = np.repeat(np.minimum(cpus, knee)[:, None], 2, axis=1)
    sensitivity = TabulatedSensitivity({1: SpeedGrid(cpus, np.array([10.0, 50.0]), speed)})
    return choices(sensitivity, 1, Share(3.0, 50.0, 6.0, 100.0))


def flat() -> Choices:
    """Progress 3 from one CPU on."""
    sensitivity = TabulatedSensitivity(
        {1: SpeedGrid(np.arange(1.0, 6.0), np.array([10.0, 50.0]), np.full((5, 2), 3))}
    )
    return choices(sensitivity, 1, Share(3.0, 50.0, 6.0, 100.0))


@pytest.mark.parametrize("name", ["tune", "greedy", "optimal", "priced"])
def test_a_hungry_job_gets_what_its_neighbour_gains_nothing_by(name: str) -> None:
    needs = [Need("A", 1, linear(5)), Need("B", 1, flat())]
    nodes = provided(mechanism_of(Provisioning(name)), room(ONE_NODE), needs)
    check(nodes, needs)
    assert {job: cpus for job, (cpus, _) in held(nodes).items()} == {"A": 5.0, "B": 1.0}
    progress = sum(one.speed * 3 for one in nodes.held.values())  # the share's is 3 for both
    assert progress == pytest.approx(8)


@pytest.mark.parametrize("name", ["tune", "optimal", "priced"])
def test_two_hungry_jobs_both_run(name: str) -> None:
    needs = [Need("A1", 1, linear(5)), Need("A2", 1, linear(5))]
    nodes = provided(mechanism_of(Provisioning(name)), room(ONE_NODE), needs)
    check(nodes, needs)
    assert sum(one.speed * 3 for one in nodes.held.values()) == pytest.approx(6)
    assert len(nodes.held) == 2


def test_greedy_skips_the_second_and_leaves_a_gpu_idle() -> None:
    nodes = provided(Greedy(), room(ONE_NODE), [Need("A1", 1, linear(5)), Need("A2", 1, linear(5))])
    assert held(nodes) == {"A1": (5.0, 10.0)}
    assert nodes.gpus.tolist() == [1]


def test_a_job_that_gives_way_never_takes_more_of_the_other_amount() -> None:
    # Much CPU and little memory: it must not be raised to its share of memory (specification, 8.3 ii).
    assert demoted(wants(9, 20, SHARE)) == (3.0, 20.0, pytest.approx(1.0))
    small, large = Need("small", 1, wants(9, 20, SHARE)), Need("large", 1, wants(6, 230, SHARE))
    nodes = provided(Tune(), room((2, 12.0, 250.0)), [small, large])
    check(nodes, [small, large])
    assert len(nodes.held) == 2


# --- the programs of OPT (checks C3 to C5) ------------------------------------------------------------------


def test_a_vertex_splits_at_most_three_jobs_a_node() -> None:
    random = np.random.default_rng(1)
    for _ in range(30):
        count = int(random.integers(2, 7))
        gpus = random.choice([1, 2, 4], 8 * count)
        asked = np.array([[g, random.integers(1, 12) * g, random.integers(10, 200) * g] for g in gpus], float)
        asked = asked[np.cumsum(gpus) <= 8 * count]
        free = np.tile([8.0, 24.0, 500.0], (count, 1))
        # What all of them ask for has to fit one machine.
        asked[:, 1:] *= np.minimum(1, free[:, 1:].sum(axis=0) / asked[:, 1:].sum(axis=0))
        parts = mapped(asked, free)
        assert parts.sum() == pytest.approx(len(asked), abs=1e-5)
        assert (np.tensordot(parts.T, asked, axes=1) <= free + 1e-5).all()
        assert ((parts > 1e-7).sum(axis=1) > 1).sum() <= 3 * count


def test_parts_of_gpus_are_rounded_so_that_none_is_lost() -> None:
    assert rounded(np.array([3.3, 2.7]), 6, np.array([8, 8])) == ((0, 3), (1, 3))
    assert rounded(np.array([3.3, 2.7]), 6, np.array([8, 2])) == ((0, 4), (1, 2))
    assert rounded(np.array([3.3, 2.7]), 6, np.array([4, 8]), unit=2) == ((0, 4), (1, 2))
    assert rounded(np.array([1.0, 0.0]), 1, np.array([0, 0])) is None


def test_the_program_is_at_least_as_good_as_the_shares_and_no_better_than_its_bound() -> None:
    random = np.random.default_rng(2)
    for _ in range(20):
        needs = [
            Need(f"j{at}", 1, wants(float(random.integers(1, 12)), float(random.integers(10, 200)), SHARE))
            for at in range(16)
        ]
        nodes, prices = room(SERVER, SERVER), Optimal().provide(needs, best := room(SERVER, SERVER))
        relaxed = Priced().provide(needs, nodes)
        assert prices is not None
        assert relaxed is not None
        assert relaxed.bound >= prices.bound - 1e-6 >= 16 - 1e-5
        for placed in (best, nodes):
            check(placed, needs)
            assert len(placed.held) == 16
            assert sum(one.speed for one in placed.held.values()) <= relaxed.bound + 1e-6


def test_the_program_of_a_few_choices_is_as_good_as_that_of_the_whole_grid() -> None:
    """The published program has each point of the grid, and that no job is slower than at its share as a row."""
    random, cpus, memory = np.random.default_rng(3), np.arange(1.0, 13.0), np.array([20.0, 62.5, 125, 250])
    for _ in range(10):
        tables = [
            np.minimum.outer(np.minimum(cpus, random.integers(1, 13)), np.minimum(memory, random.choice(memory)))
            for _ in range(8)
        ]
        needs = [
            Need(f"j{at}", 1, choices(TabulatedSensitivity({1: SpeedGrid(cpus, memory, one)}), 1, WHOLE))
            for at, one in enumerate(tables)
        ]
        prices = Optimal().provide(needs, room(SERVER))
        speeds = np.array([one / one[2, 1] for one in tables]).reshape(8, -1)
        points = speeds.shape[1]
        each = np.kron(np.eye(8), np.ones(points))
        uses = [np.tile(np.repeat(cpus, 4), 8), np.tile(np.tile(memory, 12), 8)]
        fair = np.kron(np.eye(8), np.ones(points)) * speeds.ravel()
        whole = milp(
            -speeds.ravel(),
            constraints=[
                LinearConstraint(each, 1, 1),
                LinearConstraint(uses, ub=[24, 500]),
                LinearConstraint(fair, 1),
            ],
            integrality=1,
            bounds=Bounds(0, 1),
        )
        assert prices is not None
        assert prices.bound == pytest.approx(-whole.fun, rel=1e-6)


def test_who_runs_stays_where_it_is() -> None:
    for name in Provisioning:
        before = {f"j{at}": ((at % 2, 1),) for at in range(8)}
        needs = [Need(job, 1, wants(3, 60, SHARE), before=places) for job, places in before.items()]
        nodes = provided(mechanism_of(name), room(SERVER, SERVER), needs)
        if name is not Provisioning.OPTIMAL:
            assert places_of(nodes) == before
