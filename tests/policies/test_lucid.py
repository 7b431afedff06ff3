"""Lucid, from its acceptance checks: who is measured, who shares GPUs, who comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.decisions import Waiting, WaitReason
from coadapt.core.usage import Mean, Usage, UsageOn
from coadapt.policies.contract.arrivals import Arrivals
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.contract.sharing import Sharing as TeamSharing
from coadapt.policies.contract.sharing import TeamTerms
from coadapt.policies.lucid import BORROWED, MODE_TOLD, LucidOptions, LucidPolicy, Progress
from coadapt.policies.packing.binder import Packing, Partner
from coadapt.policies.packing.models import PackingModels
from coadapt.policies.packing.profiler import ProfilerOptions
from coadapt.policies.packing.starting import Sharing
from pydantic import ValidationError

from tests.support.rounds import left, rigid

NO_PROFILER = ProfilerOptions(nodes=0)
SCORES = {0.1: 0, 0.5: 1, 0.9: 2}  # by GPU utilisation


def uses(gpu_util: float, gib: float = 1.0, recent: float | None = None) -> dict[str, UsageOn]:
    def usage(util: float) -> Usage:
        return Usage(60.0, Mean.of(util, 60.0), Mean.of(0.1, 60.0), Mean.of(gib, 60.0))

    return {"t4": UsageOn(usage(gpu_util), usage(gpu_util if recent is None else recent))}


def lucid(ahead: float = 100.0, **options: Any) -> LucidPolicy:
    models = PackingModels(
        lambda usage: SCORES[round(usage.gpu_util or 0.0, 3)], ahead=lambda now: Arrivals(ahead, 2 * ahead)
    )
    return LucidPolicy(LucidOptions(**{"profiler": NO_PROFILER, "packing": Packing.DEFAULT} | options), models)


def nodes(*gpus: int, pool: str = "") -> Cluster:
    return Cluster(tuple(Node(f"n{at}", "t4", count, pool=pool) for at, count in enumerate(gpus)))


def waiting(id: str, gpus: int, seconds: float, util: float | None = 0.1, **view: Any) -> JobView:
    usage = {} if util is None else uses(util)
    return rigid(id, gpus, expected=left(seconds), usage=view.pop("usage", usage), **view)


def first(policy: LucidPolicy, cluster: Cluster, jobs: list[JobView], now: float = 0.0) -> Plan:
    return policy.plan(Round(now, 60.0, cluster, jobs))


def goes_on(jobs: list[JobView], plan: Plan, seconds: float) -> list[JobView]:
    """Return the jobs some seconds later, with what the plan gave them."""
    return [
        replace(
            job,
            placement=(at := plan.placements.get(job.id)),
            attained_gpu_s=job.attained_gpu_s + seconds * (0.0 if at is None else at.weight),
        )
        for job in jobs
    ]


def beside(plan: Plan) -> set[frozenset[str]]:
    """Return the pairs of jobs that share GPUs."""
    return {
        frozenset((a, b))
        for a, at in plan.placements.items()
        for b, other in plan.placements.items()
        if a < b and at.devices & other.devices
    }


def test_least_expected_gpu_time_comes_first() -> None:
    jobs = [waiting("w", 2, 401.0), waiting("eight", 8, 100.0), waiting("one", 1, 700.0)]
    plan = first(lucid(packing=Packing.OFF), nodes(8), jobs)
    assert list(plan.placements) == ["one"], "GPUs x seconds, and the next without room holds up those behind it"
    assert plan.order is not None
    assert [jobs[i].id for i in plan.order] == ["one", "eight", "w"]


def test_whoever_finds_no_room_is_skipped_while_gpus_are_shared() -> None:
    jobs = [waiting("eight", 8, 100.0), waiting("one", 1, 700.0), waiting("two", 2, 401.0)]
    plan = first(lucid(), nodes(8), jobs)
    assert set(plan.placements) == {"one", "two"}


def test_a_pair_shares_gpus_and_each_holds_half() -> None:
    jobs = [waiting("a", 1, 100.0), waiting("b", 1, 200.0)]
    plan = first(lucid(), nodes(1), jobs)
    assert beside(plan) == {frozenset("ab")}
    assert {at.weight for at in plan.placements.values()} == {0.5}


def test_a_partner_is_looked_for_first_or_last() -> None:
    jobs = [waiting("a", 1, 100.0), waiting("b", 1, 200.0)]
    assert beside(first(lucid(least_left=0.0), nodes(2), jobs)) == {frozenset("ab")}
    assert beside(first(lucid(sharing=Sharing.LAST), nodes(2), jobs)) == set()


def test_jobs_of_unknown_use_share_nothing_but_run() -> None:
    jobs = [waiting("a", 1, 100.0, None), waiting("b", 1, 200.0, None)]
    assert list(first(lucid(), nodes(1), jobs).placements) == ["a"]
    assert len(first(lucid(), nodes(2), jobs).placements) == 2


def test_jobs_over_several_nodes_share_nothing_unless_they_may() -> None:
    jobs = [waiting("a", 8, 100.0), waiting("b", 8, 200.0)]
    options: dict[str, Any] = {"most_shared_gpus": 8, "least_left": 0.0}
    assert len(first(lucid(**options), nodes(4, 4), jobs).placements) == 1
    assert len(first(lucid(**options, share_distributed=True), nodes(4, 4), jobs).placements) == 2


def test_nothing_that_runs_is_moved_or_stopped_outside_the_profiler() -> None:
    policy, cluster = lucid(), nodes(2)
    jobs = [waiting("long", 2, 9000.0, 0.9)]
    plan = first(policy, cluster, jobs)
    there = plan.placements["long"]
    jobs = [*goes_on(jobs, plan, 60.0), waiting("short", 2, 1.0, 0.9)]
    plan = first(policy, cluster, jobs, 60.0)
    assert plan.placements == {"long": there}


def test_the_survivor_holds_its_gpus_whole_again() -> None:
    policy, cluster = lucid(), nodes(1)
    jobs = [waiting("a", 1, 100.0), waiting("b", 1, 200.0)]
    plan = first(policy, cluster, jobs)
    jobs = goes_on(jobs[1:], plan, 60.0)
    plan = first(policy, cluster, jobs, 60.0)
    assert plan.placements["b"].weight == 1.0


def test_a_pair_whose_use_becomes_unstable_is_parted_if_that_is_asked_for() -> None:
    jobs = [waiting("a", 1, 100.0), waiting("b", 1, 200.0)]
    for unstable, stays in ((None, {"a", "b"}), (0.5, {"a"})):
        policy = lucid(unstable=unstable)
        plan = first(policy, nodes(1), jobs)
        later = goes_on(jobs, plan, 60.0)
        later[0] = replace(later[0], usage=uses(0.1, recent=0.5))
        plan = first(policy, nodes(1), later, 60.0)
        assert set(plan.placements) == stays


def test_with_little_to_come_nothing_is_shared() -> None:
    jobs = [waiting("a", 1, 100.0), waiting("b", 1, 200.0)]
    foretold = Round(90_000.0, 60.0, nodes(1), jobs, arriving=Arrivals(50.0, 100.0))
    by_round = lucid(packing=Packing.AUTO)
    by_round.models = replace(by_round.models, ahead=None)
    assert beside(by_round.plan(foretold)) == {frozenset("ab")}, "a round may tell what is to come"
    quiet = first(lucid(1.0, packing=Packing.AUTO), nodes(1), jobs, 90_000.0)
    assert beside(quiet) == set()
    assert [note.text for note in quiet.notes] == [MODE_TOLD[Packing.OFF]], "and the operator reads so"
    busy = first(lucid(50.0, packing=Packing.AUTO), nodes(1), jobs, 90_000.0)
    assert beside(busy) == {frozenset("ab")}
    assert [note.text for note in busy.notes] == [MODE_TOLD[Packing.DEFAULT]]


# --- the profiler ---------------------------------------------------------------------------------------------

MEASURES = ProfilerOptions(nodes=1, n_prof=8)
FOUR = nodes(8, 8, 8, 8)


def new(id: str, gpus: int, **view: Any) -> JobView:
    return waiting(id, gpus, 1000.0, None, **view)


def test_small_jobs_are_measured_and_large_ones_go_past() -> None:
    plan = first(
        lucid(profiler=MEASURES), FOUR, [new("a", 8), new("b", 4), new("c", 1), new("d", 2), new("e", 16)]
    )
    where = {id: {share.node_id for share in at.shares} for id, at in plan.placements.items()}
    assert where == {"b": {"n3"}, "c": {"n3"}, "d": {"n3"}, "e": {"n0", "n1"}}
    decision = plan.decision("a")
    assert isinstance(decision, Waiting)
    assert decision.reason is WaitReason.MEASURING


def test_a_job_is_measured_for_t_prof_and_then_goes_to_the_others() -> None:
    policy, jobs = (
        lucid(profiler=MEASURES),
        [new("a", 1), replace(new("cold", 1), spec=new("cold", 1).spec.model_copy(update={"cold_start_s": 60.0}))],
    )
    plan = first(policy, FOUR, jobs)
    assert plan.again_s == 200.0
    jobs = [replace(job, usage=uses(0.1)) for job in goes_on(jobs, plan, 200.0)]
    plan = first(policy, FOUR, jobs, 200.0)
    where = {id: at.shares[0].node_id for id, at in plan.placements.items()}
    assert where == {"a": "n0", "cold": "n3"}, "who starts slowly is measured for longer"
    assert plan.again_s == 260.0
    assert plan.lost == frozenset()


def test_a_job_that_may_not_be_stopped_is_measured_where_it_runs() -> None:
    policy, job = lucid(profiler=MEASURES), new("a", 1)
    job = replace(job, spec=job.spec.model_copy(update={"preemptible": False}))
    plan = first(policy, FOUR, [job])
    assert plan.placements["a"].shares[0].node_id != "n3"
    jobs = [replace(one, usage=uses(0.1)) for one in goes_on([job], plan, 300.0)]
    assert first(policy, FOUR, jobs, 300.0).placements == plan.placements


def test_work_that_was_done_while_measured_is_lost_only_if_that_is_asked_for() -> None:
    policy, jobs = lucid(profiler=MEASURES, profile_progress=Progress.LOST), [new("a", 1)]
    plan = first(policy, FOUR, jobs)
    plan = first(policy, FOUR, goes_on(jobs, plan, 200.0), 200.0)
    assert plan.lost == {"a"}


def test_a_scheduler_that_starts_anew_goes_on_with_what_is_measured() -> None:
    jobs = [new("a", 1), new("b", 1)]
    plan = first(lucid(profiler=MEASURES), FOUR, jobs)
    jobs = goes_on(jobs, plan, 100.0)
    again = first(lucid(profiler=MEASURES), FOUR, jobs, 100.0)
    assert again.placements == plan.placements
    assert again.again_s == 200.0


def test_a_burst_borrows_a_node_and_returns_it() -> None:
    policy = lucid(2.0, profiler=ProfilerOptions(nodes=1, n_prof=8, grow_at=2, shrink_at=1))
    jobs = [new(f"j{number}", 8) for number in range(5)]
    plan = first(policy, FOUR, jobs)
    assert len(plan.placements) == 2, "the profiler's own node, and one that is borrowed"
    (borrowed,) = {at.shares[0].node_id for at in plan.placements.values()} - {"n3"}
    assert BORROWED.format(borrowed) in [note.text for note in plan.notes]
    jobs = goes_on(jobs, plan, 50.0)
    same = first(lucid(2.0, profiler=ProfilerOptions(nodes=1, n_prof=8, grow_at=2, shrink_at=1)), FOUR, jobs, 50.0)
    assert same.placements == plan.placements, "a scheduler that starts anew knows what was borrowed"
    plan = first(policy, FOUR, [], 300.0)
    large = [waiting("large", 24, 100.0)]
    assert len(first(policy, FOUR, large, 360.0).placements) == 1, "the borrowed node is back"


def test_small_clusters_measure_where_jobs_run() -> None:
    plan = first(lucid(profiler=ProfilerOptions()), nodes(4, 4), [new("a", 8)])
    assert set(plan.placements) == {"a"}


def test_jobs_of_a_pool_run_on_its_nodes_and_are_measured_on_those_of_the_profiler() -> None:
    cluster = Cluster(
        (Node("p0", "t4", 4, pool="prof"), Node("x0", "t4", 4, pool="x"), Node("y0", "t4", 4, pool="y"))
    )
    policy = lucid(profiler=ProfilerOptions(pool="prof"))
    of = {"spec": {"pool": "y"}}
    jobs = [replace(new("a", 2), spec=new("a", 2).spec.model_copy(update=of["spec"]))]
    plan = first(policy, cluster, jobs)
    assert plan.placements["a"].shares[0].node_id == "p0"
    plan = first(policy, cluster, goes_on(jobs, plan, 200.0), 200.0)
    assert plan.placements["a"].shares[0].node_id == "y0"


# --- what is said -----------------------------------------------------------------------------------------------


def test_a_job_is_explained_by_its_priority_its_partner_and_why_not_by_others() -> None:
    policy = lucid(partner=Partner.LIGHTEST)
    jobs = [waiting("a", 1, 3600.0, 0.9), waiting("b", 1, 7200.0, 0.5), waiting("c", 1, 7200.0, 0.1)]
    where = Round(0.0, 60.0, nodes(1), jobs)
    plan = policy.plan(where)
    assert beside(plan) == {frozenset("ac")}
    told = policy.explain("c", where, plan)
    assert "It shares its GPUs with a." in told.sentences
    assert "By its use of GPUs it is tiny (Sharing Score 0)." in told.sentences
    waits = policy.explain("b", where, plan)
    assert "Priority: 1 GPU x 2 h = 2 GPU-hours; the least comes first." in waits.sentences
    assert "Not beside a: it has a partner." in waits.sentences
    alone = Round(0.0, 60.0, nodes(1), jobs[:2])
    plan = policy.plan(alone)
    assert "Not beside a: scores 1 and 2 are more than 2." in policy.explain("b", alone, plan).sentences


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"thresholds": (0.9, 0.8)}, "0 < medium <= tiny <= 1"),
        ({"thresholds": (0.0, 0.8)}, "0 < medium <= tiny <= 1"),
        ({"gpu_memory_gib": {"t4": -1}}, "greater than 0"),
        ({"packing": "always"}, "'auto', 'default', 'apathetic' or 'off'"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        LucidOptions.model_validate(wrong)


def test_a_pool_that_is_not_there_is_refused_in_a_sentence() -> None:
    policy = lucid(profiler=ProfilerOptions(pool="lab"))
    with pytest.raises(
        ValueError, match=r"profiler\.pool: 'lab' is no pool with nodes; pools of the cluster: none"
    ):
        first(policy, FOUR, [new("a", 1)])


# --- teams ------------------------------------------------------------------------------------------------------


def shared(
    jobs: list[JobView], terms: dict[str, TeamTerms], leased: tuple[str, ...] = (), now: float = 0.0
) -> Round:
    """Return a round on eight GPUs; the team of a job is the first letter of its id."""
    sharing = TeamSharing(terms, {job.id: job.id[0] for job in jobs}, {}, dict.fromkeys(leased, now + 100.0))
    return Round(now, 60.0, nodes(8), jobs, sharing=sharing)


def test_a_cap_is_kept_and_said() -> None:
    jobs = [waiting("a1", 2, 100.0), waiting("a2", 2, 200.0), waiting("b1", 2, 300.0)]
    policy = lucid(packing=Packing.OFF)
    where = shared(jobs, {"a": TeamTerms(cap={"t4": 2}), "b": TeamTerms()})
    plan = policy.plan(where)
    assert set(plan.placements) == {"a1", "b1"}
    decision = plan.decision("a2")
    assert isinstance(decision, Waiting)
    assert (decision.reason, decision.detail) == (WaitReason.TEAM_CAP, "Its team a is at its cap of 2 t4.")
    assert plan.teams["a"]["t4"].used == 2


def test_guarantees_are_served_first() -> None:
    jobs = [waiting("a1", 4, 100.0), waiting("a2", 4, 100.0), waiting("b1", 4, 9000.0)]
    terms = {"a": TeamTerms(), "b": TeamTerms(guarantee={"t4": 4})}
    assert set(lucid(packing=Packing.OFF).plan(shared(jobs, terms)).placements) == {"a1", "b1"}


def test_while_a_guarantee_waits_nobody_borrows_its_gpus() -> None:
    policy, terms = lucid(packing=Packing.OFF), {"a": TeamTerms(), "b": TeamTerms(guarantee={"t4": 8})}
    jobs = [waiting("a1", 4, 100.0)]
    plan = policy.plan(shared(jobs, terms))
    jobs = [*goes_on(jobs, plan, 60.0), waiting("a2", 4, 10.0), waiting("b1", 8, 9000.0)]
    assert set(policy.plan(shared(jobs, terms, now=60.0)).placements) == {"a1"}


def test_teams_without_terms_change_nothing() -> None:
    jobs = [waiting(f"a{number}", 1 + number % 3, 100.0 * number) for number in range(12)]
    without = lucid().plan(Round(0.0, 60.0, nodes(8), jobs))
    assert lucid().plan(shared(jobs, {"a": TeamTerms()})).placements == without.placements
