"""`max_min` leaves nobody worse off than need be, and gives what is left to the next worst off."""

from __future__ import annotations

import pytest
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Round
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.measured_rates import MeasuredRatesWorld
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

from tests.support.rounds import cluster, held, job


def test_progress_is_shared_fairly_or_time_where_types_are_not_looked_at() -> None:
    # On the fast type one job gains much, the other nothing.
    rates = {("much", 1): {"a": 9.0, "b": 1.0}, ("none", 1): {"a": 1.0, "b": 1.0}}
    jobs = [TraceJob(name, 0.0, 1, application=name, steps=n) for name, n in (("much", 32400), ("none", 3600))]

    def jct_s(**options: object) -> dict[str, float]:
        world = MeasuredRatesWorld(Workload.of(jobs), rates, lambda gpus: 0.0)
        outcome = Engine(
            world, cluster_of("1x a:1, 1x b:1"), make_policy("max_min", **options), Timing(60.0)
        ).run()
        return dict(zip(outcome.workload.ids, outcome.jct_s.tolist(), strict=True))

    assert jct_s() == pytest.approx({"much": 3600, "none": 3600}, rel=0.05)
    assert jct_s(type_blind=True)["much"] > 4500


def test_jobs_that_all_fit_all_run_and_the_same_round_gives_the_same_plan() -> None:
    jobs = [job(str(i), gpus=2, adaptivity="rigid", known=False) for i in range(4)]
    round = Round(0.0, 60.0, cluster("1x a:4, 2x b:2"), jobs)
    plans = [held(make_policy("max_min", type_blind=blind).plan(round)) for blind in (False, True, False, True)]
    assert [len(plan) for plan in plans] == [4] * 4
    assert plans[:2] == plans[2:]


def test_unknown_options_are_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="policy max_min: option 'objective' is unknown"):
        make_policy("max_min", objective="max_min_fairness")
