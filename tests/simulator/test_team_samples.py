"""Teams drawn from traces: quotas by load, sizes, donors, and jobs that come when others end."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.team_samples import TeamJobs, drawn_teams, following
from coadapt.simulator.traces.workload import TraceJob, Workload

DAY_S = 86_400.0


def trace(clusters: int = 5, jobs: int = 300, days: float = 20.0) -> Workload:
    rng = np.random.default_rng(7)
    rows = [
        TraceJob(
            f"j{at}", float(rng.uniform(0, days * DAY_S)), int(rng.choice([1, 2, 8])),
            float(rng.uniform(600, 90_000)), virtual_cluster=f"vc{at % clusters}",
        )
        for at in range(clusters * jobs)
    ]  # fmt: skip
    return Workload.of(sorted(rows, key=lambda job: job.submit_s))


def loads(teams: TeamJobs, days: float) -> dict[str, float]:
    jobs, of = teams.jobs, np.array(teams.jobs.virtual_clusters)
    return {
        name: float(jobs.gpus[of == name] @ jobs.duration_s[of == name]) / (days * DAY_S * gpus)
        for name, gpus in teams.gpus.items()
    }


def test_teams_load_their_guarantees_as_drawn_and_lie_at_the_same_time() -> None:
    drawn = drawn_teams({"a": trace(), "b": trace(3)}, 4, 0, days=10.0, loads=(0.7, 0.9))
    assert len(drawn.gpus) == 4
    for load in loads(drawn, 10.0).values():
        assert 0.7 * 0.93 < load < 0.9 * 1.07  # a guarantee is whole GPUs
    assert drawn.jobs.submit_s.min() >= 0
    assert drawn.jobs.submit_s.max() < 10 * DAY_S
    assert (np.diff(drawn.jobs.submit_s) >= 0).all()
    assert len(set(drawn.jobs.ids)) == len(drawn.jobs)
    assert set(drawn.jobs.virtual_clusters) == set(drawn.gpus)


def test_a_guarantee_holds_the_widest_job() -> None:
    drawn = drawn_teams({"a": trace()}, 3, 1, loads=(50.0, 60.0))
    assert all(gpus == 8 for gpus in drawn.gpus.values())


def test_a_seed_draws_the_same_teams_and_another_one_others() -> None:
    one, same, other = (drawn_teams({"a": trace()}, 3, seed) for seed in (2, 2, 3))
    assert one.gpus == same.gpus
    np.testing.assert_array_equal(one.jobs.submit_s, same.jobs.submit_s)
    assert other.gpus != one.gpus


def test_sizes_and_donors() -> None:
    drawn = drawn_teams({"a": trace()}, 3, 2)
    small = drawn.sized(0.5)
    assert small.gpus == {name: max(round(0.5 * gpus), 1) for name, gpus in drawn.gpus.items()}
    assert all(
        width <= small.gpus[team] for team, width in zip(small.jobs.virtual_clusters, small.jobs.gpus, strict=True)
    )
    rest = drawn.without_donors(1)
    assert max(drawn.gpus, key=lambda name: drawn.gpus[name]) not in rest.gpus
    assert set(rest.jobs.virtual_clusters) == set(rest.gpus)
    assert f"{next(iter(rest.gpus))}: {{guarantee: {{t4: " in rest.text("t4")


def test_jobs_come_when_others_end() -> None:
    """With one GPU each job of a chain starts as it comes, so that gaps to the end before are as drawn."""
    rows = [TraceJob(f"j{at}", 10.0 * at, 1, 1000.0, virtual_cluster="a") for at in range(200)]
    open_ = TeamJobs(Workload.of(rows), {"a": 300})
    closed = following(open_, 1.0, 0, gap_s=50.0)
    at = {id: float(s) for id, s in zip(closed.jobs.ids, closed.jobs.submit_s, strict=True)}
    ends = {s + 1000.0 for s in at.values()}
    gaps = [min((s - end for end in ends if end <= s), default=-1.0) for name, s in at.items() if name != "j0"]
    assert all(gap >= 0 for gap in gaps), "each comes after the end of another"
    assert np.mean(gaps) < 60
    assert (np.diff(closed.jobs.submit_s) >= 0).all()
    assert sorted(closed.jobs.ids) == sorted(open_.jobs.ids)
    np.testing.assert_array_equal(following(open_, 0.0, 0).jobs.submit_s, open_.jobs.submit_s)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (
            lambda: drawn_teams({"a": trace()}, 6, 0),
            "teams: 6, and only 5 virtual clusters have 20 jobs in that time",
        ),
        (lambda: drawn_teams({"a": trace()}, 2, 0).sized(0), "size: 0; a factor above 0 is accepted"),
        (
            lambda: following(drawn_teams({"a": trace()}, 2, 0), 1.5, 0),
            "part: 1.5; a part of all jobs from 0 to 1",
        ),
        (
            lambda: following(drawn_teams({"a": trace()}, 2, 0), 0.5, 0, 0),
            "gap_s: 0; seconds above 0 are accepted",
        ),
    ],
)
def test_numbers_that_cannot_be_are_refused(made: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        made()  # type: ignore[operator]
