"""While jobs are chosen, no GPU of a type is promised twice."""

from coadapt.policies.choosing.budget import Budget

from tests.support.rounds import cluster


def test_a_job_gets_all_it_asks_for_or_nothing() -> None:
    budget = Budget(cluster("2x t4:4, 1x a100:2"))
    assert budget.take("t4", 6)
    assert not budget.take("t4", 3)
    assert budget.take("t4", 2)
    assert not budget.take("t4", 1)
    assert budget.take("a100", 2)
