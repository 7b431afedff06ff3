"""Jobs and nodes that come and go do not make all that is known of the others be worked out anew."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from coadapt.policies.choosing.allocation_round import Values
from coadapt.policies.choosing.recent_needs import RecentNeeds
from coadapt.policies.contract.configuration import ConfigurationSet, needs
from coadapt.policies.contract.round import JobView, Round
from coadapt.policies.sia import SiaPolicy

from tests.support.rounds import after, assert_within, cluster, job, model, spec

WHERE = cluster("8x a:4, 2x b:8")


class Counting(SiaPolicy):
    """Notes for how many jobs values are worked out."""

    valued = 0

    def values(
        self, jobs: Sequence[JobView], configurations: ConfigurationSet, goodput: np.ndarray, placed: np.ndarray
    ) -> Values:
        self.valued += len(jobs)
        return super().values(jobs, configurations, goodput, placed)


def view(i: int, **about: object) -> JobView:
    return replace(job(f"job-{i}", **about), model=model({"a": 10.0 + i, "b": 20.0}, 0.01), submitted_s=float(i))


def settled(policy: Counting, jobs: list[JobView]) -> list[JobView]:
    """Return the jobs after rounds have come to rest."""
    for _ in range(10):
        policy.valued = 0
        jobs = after(jobs, policy.plan(Round(0.0, 60.0, WHERE, jobs)))
        if not policy.valued:
            return jobs
    raise AssertionError("jobs go on moving")


def test_a_node_that_is_lost_changes_nothing_of_jobs_that_were_not_on_it() -> None:
    policy = Counting()
    jobs = settled(policy, [view(i, max_gpus=4) for i in range(6)])
    (lost,) = jobs[0].placement.by_node if jobs[0].placement else ()
    where = replace(WHERE, nodes=tuple(node for node in WHERE.nodes if node.id != lost))
    hit = [lost in (j.placement.by_node if j.placement else {}) for j in jobs]
    jobs = [replace(j, placement=None) if on_it else j for j, on_it in zip(jobs, hit, strict=True)]
    plan = policy.plan(Round(60.0, 60.0, where, jobs))
    assert policy.valued == sum(hit) < len(jobs)
    assert_within(plan, where)
    anew = SiaPolicy().plan(Round(60.0, 60.0, where, jobs))
    assert plan.objective == pytest.approx(anew.objective, rel=2e-4)


@pytest.mark.parametrize(
    "about",
    [{"max_gpus": 32}, {"adaptivity": "rigid", "gpus": 3}, {"gpus_per_replica": 3, "max_gpus": 4}],
    ids=str,
)
def test_a_job_of_another_size_that_goes_and_comes_again_leaves_the_others_as_they_are(
    about: dict[str, object],
) -> None:
    policy = Counting()
    others, one = [view(i, max_gpus=4) for i in range(6)], view(9, **about)
    jobs = settled(policy, [*others, one])
    policy.plan(Round(60.0, 60.0, WHERE, jobs[:-1]))
    assert policy.valued == 0
    policy.plan(Round(120.0, 60.0, WHERE, [*jobs[:-1], one]))
    assert policy.valued == 1


def test_what_no_job_needed_for_sixty_rounds_is_forgotten() -> None:
    recent, small, odd = RecentNeeds(), [spec(max_gpus=4)], [spec(adaptivity="rigid", gpus=3)]
    assert recent.with_those_of(WHERE, small + odd) == needs(WHERE, small + odd)
    for _ in range(60):
        assert recent.with_those_of(WHERE, small) == needs(WHERE, small + odd)
    assert recent.with_those_of(WHERE, small) == needs(WHERE, small)


def test_the_largest_size_that_was_needed_lately_stays() -> None:
    recent = RecentNeeds()
    sizes = [64, 8, 16, 8]
    assert [recent.with_those_of(WHERE, [spec(max_gpus=most)])[1] for most in sizes] == [64, 64, 64, 64]
    for _ in range(57):
        assert recent.with_those_of(WHERE, [spec(max_gpus=4)])[1] == 64
    # 64 was needed longer ago than 60 rounds, 16 was not, and then 8.
    assert [recent.with_those_of(WHERE, [spec(max_gpus=4)])[1] for _ in range(4)] == [16, 16, 8, 4]


def test_what_jobs_asked_for_beside_their_gpus_is_remembered_as_long() -> None:
    recent, heavy, light = RecentNeeds(), [spec(cpus_per_gpu=4.0)], [spec(cpus_per_gpu=1.0)]
    seen = []
    for specs in (heavy, *[light] * 61):
        recent.with_those_of(WHERE, specs)
        seen.append(len(recent.demands_with_those_of(specs)))
    assert seen == [1, *[2] * 60, 1]
