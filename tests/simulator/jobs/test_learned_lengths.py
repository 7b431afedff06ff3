"""What policies learn in virtual time of jobs whose lengths nobody tells: of runs that had ended only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coadapt.cli.main import run as command
from coadapt.core.expected import Expected, ExpectedSource
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Planner, Round
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

SHORT, LONG = 300.0, 20_000.0


def workload(count: int = 60) -> Workload:
    """Make jobs of two users, one of whom has short jobs. All ask for one GPU."""
    random = np.random.default_rng(0)
    jobs = []
    for n in range(count):
        user = ("short", "long")[n % 2]
        length = {"short": SHORT, "long": LONG}[user] * float(np.exp(0.2 * random.standard_normal()))
        jobs.append(TraceJob(str(n), 120.0 * n, 1, length, user=user))
    return Workload.of(jobs)


class Watching:
    """Serves as srtf, and notes what was expected when of whose job."""

    def __init__(self) -> None:
        self.policy = make_policy("srtf")
        self.seen: list[tuple[float, str, Expected]] = []

    def plan(self, round: Round) -> Plan:
        self.seen += [(round.now, view.id, view.expected) for view in round.jobs]
        return self.policy.plan(round)


def mean_jct_s(lengths: Lengths, policy: Planner | None = None) -> float:
    world = FixedLengthWorld(workload(), lengths=lengths)
    engine = Engine(world, cluster_of("1x any:4"), policy or make_policy("srtf"), Timing(60.0))
    return float(engine.run().jct_s.mean())


def test_nothing_is_learned_of_a_run_before_it_has_ended() -> None:
    watching = Watching()
    world = FixedLengthWorld(jobs := workload(), lengths=Lengths.LEARNED)
    outcome = Engine(world, cluster_of("1x any:4"), watching, Timing(60.0)).run()
    users = dict(zip(jobs.ids, jobs.users, strict=True))
    owners = np.array(jobs.users)
    ended = {user: float(outcome.finished_s[owners == user].min()) for user in ("short", "long")}
    known = [(now, id, expected) for now, id, expected in watching.seen if expected.known]
    assert all(now >= ended[users[id]] for now, id, _ in known)
    assert all(expected.source is ExpectedSource.EARLIER_RUNS for *_, expected in known)
    assert {users[id] for _, id, _ in known} == {"short", "long"}


def test_what_is_learned_serves_short_jobs_almost_as_well_as_being_told() -> None:
    told, learned, unknown = (mean_jct_s(lengths) for lengths in (Lengths.TOLD, Lengths.LEARNED, Lengths.UNKNOWN))
    assert told <= learned < unknown
    assert learned - told < (unknown - told) / 2


def test_lengths_are_an_option_of_simulate_and_only_of_traces_that_have_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"id": "a", "submit_s": 0, "duration_s": 60}\n')
    arguments = ["simulate", "--trace", str(trace), "--cluster", "1x any:1", "--policy", "sjf", "--json"]
    assert command([*arguments, "--lengths", "learned"]) == 0
    capsys.readouterr()
    trace.write_text('{"id": "a", "submit_s": 0, "application": "cifar10", "batch_size": 128}\n')
    arguments[4] = "1x t4:1"
    assert command([*arguments, "--lengths", "unknown"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "--lengths: unknown is only for traces of jobs that have a duration" in told
