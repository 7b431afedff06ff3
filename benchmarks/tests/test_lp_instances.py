"""Programs that solvers are measured on are what their family says; a continual program solves the small ones."""

import numpy as np
import pytest
from coadapt.benchmarks.lp_exactness import compare, highs
from coadapt.optimizer.copter.engine import ContinualProgram
from coadapt.optimizer.linear_program import Status

from tests.support.lp_instances import FAMILIES, GpuAllocation, Instance, generated

SMALL = list(generated(sizes=1, draws=2))


def test_there_are_enough_of_them_and_each_is_drawn_once() -> None:
    every = [instance.name for instance in generated()]
    assert len(every) == len(set(every)) >= 150
    assert {instance.family for instance in SMALL} == set(FAMILIES)


@pytest.mark.parametrize("instance", SMALL, ids=lambda instance: instance.name)
def test_status_objective_and_bound_are_those_of_highs(instance: Instance) -> None:
    found = compare(instance, tolerance=1e-6, time_limit_s=20.0)
    assert highs(instance.program).status is instance.status
    assert found.solved
    assert not found.broken_bound
    assert instance.status is not Status.OPTIMAL or found.error <= 1e-5


def test_after_a_small_change_programs_of_all_kinds_are_solved_in_half_the_iterations() -> None:
    rng, warm, cold = np.random.default_rng(0), 0, 0
    for instance in generated(sizes=2, draws=1):
        if instance.status is Status.OPTIMAL:
            program = ContinualProgram.of(instance.program)
            assert program.solve(tolerance=1e-5, time_limit_s=20.0).status is Status.OPTIMAL
            cost = instance.program.cost
            program.change_request("x", cost=cost * (1 + 0.02 * rng.normal(size=len(cost))))
            found = program.solve(tolerance=1e-5, time_limit_s=20.0)
            again = program.solve(tolerance=1e-5, time_limit_s=20.0, warm=False)
            assert found.objective == pytest.approx(again.objective, rel=1e-4, abs=1e-4)
            warm, cold = warm + found.iterations, cold + again.iterations
    assert 2 * warm < cold


def test_a_round_of_an_allocation_changes_what_it_says() -> None:
    allocation = GpuAllocation(200, 16)
    before = list(allocation.parameters)
    costs = {id: allocation.values(id) for id in before}
    change = allocation.step()
    stayed = [id for i, id in enumerate(before) if i not in change.left]
    assert list(allocation.parameters) == list(allocation.program.requests) == stayed + change.came
    assert len(change.left) == len(change.came) == 2
    assert len(change.changed) == 10
    for id in stayed:
        assert np.array_equal(allocation.values(id), costs[id]) == (id not in change.changed)
