"""Policies of simulated clusters go by what is foretold, by estimates from outside, or by perturbed lengths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from coadapt.cli.main import run as command
from coadapt.core.expected import ExpectedSource
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.foretold_lengths import ERRORS, perturbed
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import SimulatedCluster, cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

SHORT_S, LONG_S = 300.0, 20_000.0
TWO_POOLS = SimulatedCluster({name: cluster_of("1x any:4", f"{name}-", name) for name in ("x", "y")})


def workload(count: int = 160) -> Workload:
    """Make jobs of two users in two pools, one of whom has short jobs. All ask for one GPU."""
    random = np.random.default_rng(0)
    jobs = []
    for n in range(count):
        user = ("short", "long")[n % 2]
        length = {"short": SHORT_S, "long": LONG_S}[user] * float(np.exp(0.2 * random.standard_normal()))
        jobs.append(TraceJob(str(n), 120.0 * n, 1, length, user=user, virtual_cluster="xy"[n % 3 % 2]))
    return Workload.of(jobs)


def ran(jobs: Workload, lengths: Lengths, seed: int = 0, estimates: Path | None = None) -> Outcome:
    under = Conditions(Timing(events=True), lengths=lengths, seed=seed, estimates=estimates)
    return simulation(jobs, TWO_POOLS, "qssf", {}, source_of(False, None, TWO_POOLS), under).run()


def test_what_is_foretold_serves_almost_as_well_as_the_truth() -> None:
    told, foretold, unknown = (
        float(ran(workload(), of).jct_s.mean()) for of in (Lengths.TOLD, Lengths.FORETOLD, Lengths.UNKNOWN)
    )
    assert told <= foretold < unknown
    assert foretold - told < (unknown - told) / 2


@pytest.mark.parametrize(
    "timing", [Timing(60.0, early_s=0.5), pytest.param(Timing(events=True), marks=pytest.mark.slow)]
)
def test_pools_share_a_service_that_never_sees_the_future_of_another_pool(timing: Timing) -> None:
    jobs = workload()
    seen: dict[str, list[float]] = {}

    def watched(jobs: Workload) -> dict[str, list[float]]:
        seen.clear()
        made = simulation(
            jobs, TWO_POOLS, "qssf", {}, source_of(False, None, TWO_POOLS),
            Conditions(timing, lengths=Lengths.FORETOLD),
        )  # fmt: skip
        for engine in made.engines:
            engine.watch = note
        made.run()
        return {id: list(of) for id, of in seen.items()}

    def note(round: Round, plan: Plan) -> None:
        for view in round.jobs:
            if view.placement is None:
                assert view.expected.source is ExpectedSource.HISTORY
                seen.setdefault(view.id, []).append(view.expected.mean_s)

    first = watched(jobs)
    assert all(len(set(of)) == 1 for of in first.values()), "a forecast stays while a job waits"
    late = jobs.submit_s > jobs.submit_s[100]
    longer = replace(jobs, duration_s=np.where(late, 5 * jobs.duration_s, jobs.duration_s))
    second = watched(longer)
    early = [id for id in jobs.ids[:100] if id in first and id in second]
    assert early
    assert all(first[id][0] == second[id][0] for id in early), "what comes later changes no earlier forecast"


def test_perturbed_lengths_have_the_errors_of_the_paper_and_follow_the_seed() -> None:
    true_s = np.full(200_000, 1000.0)
    errors = np.abs(perturbed(true_s, 0) / 1000 - 1)
    for (part, low, high), upto in zip(ERRORS, np.cumsum([part for part, *_ in ERRORS]), strict=True):
        assert np.mean(errors <= high) == pytest.approx(upto, abs=0.01), (part, low)
    assert (perturbed(true_s, 0) < 0).mean() == pytest.approx(0.15, abs=0.01)
    assert np.array_equal(perturbed(true_s, 0), perturbed(true_s, 0))
    assert not np.array_equal(perturbed(true_s, 0), perturbed(true_s, 1))


def test_perturbed_and_estimated_lengths_order_jobs(tmp_path: Path) -> None:
    jobs = workload(40)
    assert np.isfinite(ran(jobs, Lengths.PERTURBED, seed=3).finished_s).all()
    path = tmp_path / "estimates.csv"
    path.write_text("job_id,estimate_s\n" + "".join(f"{id},{1e6 - n}\n" for n, id in enumerate(jobs.ids)))
    outcome = ran(jobs, Lengths.ESTIMATED, estimates=path)
    for pool in "xy":
        at = np.flatnonzero(np.array(jobs.virtual_clusters) == pool)
        waited = at[outcome.started_s[at] > outcome.workload.submit_s[at]]
        assert len(waited) > 3, "of those that wait together the newest starts first"


def test_a_service_is_an_option_of_simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"id": "a", "submit_s": 0, "duration_s": 60, "user": "ann", "name": "train"}\n')
    arguments = ["simulate", "--trace", str(trace), "--cluster", "1x any:1", "--policy", "qssf"]
    assert command([*arguments, "--service", "durations"]) == 0
    assert "what a service foretells" in " ".join(capsys.readouterr().out.split())
    assert make_policy("qssf").traits.needs_expected
