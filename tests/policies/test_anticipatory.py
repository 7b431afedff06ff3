"""Policy `anticipatory` in the simulator: nobody ends later than without lending, and teams are told why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from coadapt.core.decisions import Refused, Waiting, WaitReason
from coadapt.core.expected import Expected, ExpectedSource
from coadapt.core.job import JobSpec
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.catalogue import live_policy, make_policy
from coadapt.policies.contract.round import JobView, Round
from coadapt.policies.contract.sharing import Sharing, TeamTerms
from coadapt.policies.lending.round_books import RoundBooks
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.foreseeing import Foresees
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import cluster_of, read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload

NOTHING = {"windows_s": [], "stops_borrowers": False}
PINNED = {"stops_borrowers": False}
TEAMS = "teams: {a: {guarantee: {t4: 6}}, b: {guarantee: {t4: 2}}, c: {guarantee: {t4: 4}}}"


def drawn(seed: int, *, stoppable: bool) -> Workload:
    """Return 60 jobs of three teams on 12 GPUs: most are short, and some take hours."""
    rng = np.random.default_rng(seed)
    jobs = []
    for at in range(60):
        team, most = [("a", 6), ("b", 2), ("c", 4)][int(rng.integers(3))]
        takes = float(rng.choice([rng.uniform(20, 300), rng.uniform(300, 3600), rng.uniform(3600, 50_000)]))
        gpus = min(int(rng.choice([1, 1, 2, 4])), most)
        job = TraceJob(id=f"j{at:02d}", submit_s=float(rng.uniform(0, 40_000)), duration_s=takes, gpus=gpus)
        jobs.append(replace(job, virtual_cluster=team, preemptible=stoppable))
    return Workload.of(sorted(jobs, key=lambda job: job.submit_s))


def simulated(
    jobs: Workload,
    options: dict[str, object],
    foresees: Foresees | None,
    folder: Path,
    policy: str = "anticipatory",
) -> Outcome:
    (folder / "teams.yaml").write_text(TEAMS)
    nodes = read_cluster("3x t4:4")
    under = Conditions(timing=Timing(events=True), shares=folder / "teams.yaml", foresees=foresees)
    return simulation(jobs, nodes, policy, options, source_of(False, None, nodes), under).run()


@pytest.mark.parametrize("reservations", ["bulk", "blocking"])
def test_with_a_perfect_forecast_nobody_ends_later_and_many_end_sooner(tmp_path: Path, reservations: str) -> None:
    sooner = 0
    for seed in range(4):
        jobs = drawn(seed, stoppable=False)
        alone = simulated(jobs, NOTHING, None, tmp_path)
        lent = simulated(jobs, {**PINNED, "reservations": reservations}, Foresees.PERFECT, tmp_path)
        assert (lent.jct_s <= alone.jct_s + 1e-6).all()
        assert not lent.preemptions.any()
        sooner += int((lent.jct_s < alone.jct_s - 1).sum())
    assert sooner > 20


@pytest.mark.parametrize("start_times", ["reference", "state"])
def test_a_virtual_clock_foresees_every_job(tmp_path: Path, start_times: str) -> None:
    """By the start times of the reference nobody is late."""
    jobs = drawn(2, stoppable=False)
    alone = simulated(jobs, NOTHING, None, tmp_path)
    known = simulated(jobs, {"start_times": start_times}, Foresees.PERFECT, tmp_path, "virtual_clock")
    assert known.jct_s.mean() < 0.9 * alone.jct_s.mean()
    if start_times == "reference":
        assert (known.jct_s <= alone.jct_s + 1e-6).all()


def test_a_virtual_clock_is_refused_where_the_future_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must know all jobs to come; give --shares and --foresees perfect"):
        simulated(drawn(0, stoppable=False), {}, Foresees.ALWAYS, tmp_path, "virtual_clock")
    with pytest.raises(ValueError, match="must know all jobs to come, so it is for simulations only"):
        live_policy("virtual_clock")


def test_without_a_forecast_nobody_ends_later_either(tmp_path: Path) -> None:
    """All of a guarantee may be asked for, so a job borrows only where a blocked queue holds up whoever comes."""
    jobs = drawn(0, stoppable=False)
    alone = simulated(jobs, NOTHING, None, tmp_path)
    unknown = simulated(jobs, PINNED, None, tmp_path)
    assert (unknown.jct_s <= alone.jct_s + 1e-6).all()
    bulk = simulated(jobs, {**PINNED, "reservations": "bulk"}, None, tmp_path)
    np.testing.assert_allclose(alone.jct_s, bulk.jct_s)


def test_jobs_that_may_be_stopped_borrow_without_a_forecast_and_lose_their_restarts_at_most(
    tmp_path: Path,
) -> None:
    jobs = drawn(1, stoppable=True)
    alone, lent = simulated(jobs, NOTHING, None, tmp_path), simulated(jobs, {}, None, tmp_path)
    assert lent.jct_s.mean() < 0.9 * alone.jct_s.mean()
    restarts_s = 30.0 * lent.preemptions.max()
    assert (lent.jct_s <= alone.jct_s + 3 * restarts_s + 1e-6).all()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"windows_s": [60, 60]}, "60 follows 60; windows above 0 s that rise are accepted"),
        ({"windows_s": [0]}, "0 follows 0; windows above 0 s that rise are accepted"),
        ({"windows_s": [float("inf")]}, "inf follows 0; windows above 0 s that rise are accepted"),
        ({"slack": -0.1}, "slack: -0.1 is not accepted, must be a number of at least 0"),
        ({"reservations": "some"}, "must be one of blocking, bulk"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make_policy("anticipatory", **options)


def test_a_forecast_without_teams_is_refused() -> None:
    with pytest.raises(ValueError, match="--foresees: tells of the jobs of teams, so it goes with --shares"):
        Conditions(foresees=Foresees.PERFECT)


def view(id: str, gpus: int, *, preemptible: bool = False, minutes: float = 1.0, **about: object) -> JobView:
    spec = JobSpec.model_validate(
        {"name": id, "script": "x.py", "resources": {"gpus": gpus}, "preemptible": preemptible,
         "training": {"adaptivity": "rigid"}}
    )  # fmt: skip
    return JobView(id, spec, expected=Expected.exactly(60 * minutes, ExpectedSource.TRACE), **about)


def round_of(*jobs: JobView, teams: dict[str, str]) -> Round:
    terms = {"a": TeamTerms({"t4": 2}), "b": TeamTerms({"t4": 2})}
    return Round(0.0, 60.0, cluster_of("1x t4:4"), jobs, sharing=Sharing(terms, teams))


def held(gpus: int) -> Placement:
    return Placement("t4", (NodeShare("t4-0000", gpus),))


def test_a_job_is_told_whose_gpus_it_has_and_why_it_waits() -> None:
    policy = make_policy("anticipatory")
    jobs = [view("own", 2), view("lent", 2, preemptible=True), view("waits", 1), view("wide", 3)]
    round = round_of(*jobs, teams=dict.fromkeys(("own", "lent", "waits", "wide"), "a"))
    plan = policy.plan(round)
    assert plan.placements.keys() == {"own", "lent"}
    assert plan.borrowed == {"lent"}
    assert "It runs on the guarantee of its team a." in policy.explain("own", round, plan).sentences
    told = " ".join(policy.explain("lent", round, plan).sentences)
    assert "It borrows idle GPUs: 2 t4 of team b. An owner whose turn comes takes them back at a step" in told
    assert isinstance(plan.decision("waits"), Waiting)
    assert plan.decision("wide") == Refused("Its team a is guaranteed fewer than 3 GPUs of each type.")


def test_a_profile_run_uses_the_guarantee_of_the_team_whose_job_it_measures() -> None:
    for name in ("anticipatory", "team_queues"):
        policy = make_policy(name)
        jobs = [view("own", 1, placement=held(1)), view("new-profile-t4", 1), view("waits", 1)]
        round = round_of(*jobs, teams={"own": "a", "waits": "a"})
        assert round.sharing is not None
        teams = replace(round.sharing, measured_for={"new-profile-t4": "a"})
        plan = policy.plan(replace(round, sharing=teams))
        assert plan.placements.keys() >= {"own", "new-profile-t4"}
        assert "new-profile-t4" not in plan.borrowed
        assert "waits" not in plan.placements.keys() - plan.borrowed, "the guarantee of two GPUs is in use"


def test_who_borrows_is_remembered_and_gives_back_when_the_owner_comes() -> None:
    policy = make_policy("anticipatory")  # another process of the service: all it knows is in the round
    lent = view("lent", 2, preemptible=True, placement=held(2), borrows=True)
    own = view("own", 2, placement=held(2))
    teams = {"own": "a", "lent": "a", "comes": "b"}
    assert policy.plan(round_of(own, lent, teams=teams)).borrowed == {"lent"}
    plan = policy.plan(round_of(own, lent, view("comes", 2), teams=teams))
    assert plan.placements.keys() == {"own", "comes"}
    assert plan.borrowed == frozenset()
    ended = policy.plan(round_of(lent, view("comes", 2), teams=teams))
    assert ended.borrowed == frozenset(), "its own turn has come, so it stays where it is"
    assert ended.placements["lent"] == held(2)


def test_idle_gpus_that_are_kept_are_told_as_kept() -> None:
    policy = make_policy("anticipatory", stops_borrowers=False)
    round = round_of(view("own", 2), view("waits", 1), teams={"own": "a", "waits": "a"})
    decision = policy.plan(round).decision("waits")
    assert isinstance(decision, Waiting)
    assert decision.reason == WaitReason.KEPT_FOR_TEAMS
    assert decision.detail == "2 GPUs of t4 are idle, and are kept for the guarantees of teams."


def test_a_borrower_that_takes_longer_than_was_foreseen_counts_as_if_it_stayed() -> None:
    """Else what it has would be counted on within the first window, and be lent to others once more."""
    late = view("late", 2, minutes=0.0, placement=held(2), borrows=True)
    books = RoundBooks(round_of(late, teams={"late": "a"}), False)
    (borrower,) = books.books["t4"].borrowers
    assert borrower.most_s == float("inf")
