"""What a user relies on: policies of a fixed size take `provisioning`, and everybody sees what comes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.decisions import Placed, Waiting, WaitReason
from coadapt.core.placement import NodeShare, Placement
from coadapt.estimators.sensitivity.measured import MeasuredSensitivity
from coadapt.estimators.sensitivity.table import SpeedGrid, TabulatedSensitivity
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.plan_check import check_plan
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.contract.sharing import Sharing, TeamTerms
from coadapt.policies.placing.ledger import Ledger

from tests.support.rounds import held, left, model, on, rigid

ORDERED = ("fifo", "srtf", "sjf", "las", "themis", "ftf", "drf", "tetris")
NODE = {"cpus": 24.0, "memory_gib": 500.0}
CPUS, MEMORY = np.array([1.0, 3, 6, 9, 24]), np.array([20.0, 62.5, 250])
IMAGE = TabulatedSensitivity(
    {1: SpeedGrid(CPUS, MEMORY, np.repeat(np.array([[0.4], [1.0], [1.7], [2.4], [2.4]]), 3, axis=1))}
)
LANGUAGE = TabulatedSensitivity({1: SpeedGrid(CPUS, MEMORY, np.ones((5, 3)))})


def nodes(count: int = 1, gpu_type: str = "v100", **amounts: float) -> Cluster:
    made = [Node(f"{gpu_type}-{at:03d}", gpu_type, 8, **(NODE | amounts)) for at in range(count)]
    return Cluster(tuple(made))


def image(id: str, gpus: int = 1, **view: object) -> JobView:
    return rigid(id, gpus, sensitivity=IMAGE, **view)


def language(id: str, gpus: int = 1, **view: object) -> JobView:
    return rigid(id, gpus, sensitivity=LANGUAGE, **view)


def plan(policy: str, where: Cluster, *jobs: JobView, **options: object) -> tuple[Plan, Round]:
    round = Round(1000.0, 300.0, where, jobs)
    found = make_policy(policy, **options).plan(round)
    check_plan(found, round)
    ledger = Ledger(where)
    for job, placement in found.placements.items():
        ledger.take(job, placement)  # raises where a node has less
    return found, round


def amounts(found: Plan, job: str) -> tuple[float, float]:
    shares = found.placements[job].shares
    return sum(share.cpus for share in shares), sum(share.memory_gib for share in shares)


@pytest.mark.parametrize("policy", ORDERED)
@pytest.mark.parametrize("mechanism", ["proportional", "greedy", "tune", "optimal", "priced"])
def test_every_policy_of_fixed_sizes_takes_every_mechanism(policy: str, mechanism: str) -> None:
    jobs = [image("image"), *(language(f"l{at}", submitted_s=at) for at in range(6))]
    found, round = plan(policy, nodes(), *jobs, provisioning=mechanism)
    assert len(found.placements) == 7
    cpus = amounts(found, "image")[0], amounts(found, "l0")[0]
    assert cpus == ((3.0, 3.0) if mechanism == "proportional" else (9.0, 1.0))
    told = make_policy(policy, provisioning=mechanism).explain("image", round, found)
    assert told.facts["speed_over_share"] == pytest.approx(1.0 if mechanism == "proportional" else 2.4)
    assert told.facts["share"] == {"cpus": 3.0, "memory_gib": 62.5}


def test_explain_says_what_a_job_has_against_its_share_and_what_a_cpu_is_worth() -> None:
    jobs = [image(f"i{at}", submitted_s=at) for at in range(6)]
    jobs += [language(f"l{at}", submitted_s=9.0) for at in range(2)]
    found, round = plan("fifo", nodes(), *jobs, provisioning="priced")
    policy = make_policy("fifo", provisioning="priced")
    richest = max((job.id for job in jobs), key=lambda id: amounts(found, id)[0])
    lines = policy.explain(richest, round, found).sentences
    assert "It has 6 CPUs and 20 GiB of memory; its GPUs' share is 3 and 62.5." in lines
    assert "It trains 1.70 times as fast as with its share." in lines
    assert "It trains as fast as with its share." in policy.explain("l0", round, found).sentences
    assert found.cpu_prices["v100"] == pytest.approx(1.4 / 6, rel=0.01)  # 3 to 9 CPUs make 1.4 more
    assert found.memory_prices == {"v100": 0.0}
    assert any(line.startswith("One more CPU beside v100 GPUs would be worth 0.233") for line in lines)


def test_without_the_option_nothing_is_chosen() -> None:
    jobs = [image("image"), language("language", submitted_s=1.0)]
    found, round = plan("fifo", nodes(), *jobs)
    assert amounts(found, "image") == (1.0, 0.0)  # what a job asks for by default
    assert found.figures == {}
    assert not any("CPUs" in line for line in make_policy("fifo").explain("image", round, found).sentences)


@pytest.mark.parametrize("policy", ORDERED)
def test_a_policy_says_whether_it_chooses_cpus_and_memory(policy: str) -> None:
    assert make_policy(policy, provisioning="tune").traits.provisions
    assert not make_policy(policy).traits.provisions


def test_fifo_starts_in_order_and_stops_nobody_unless_it_may() -> None:
    runs = [language(f"r{at}", submitted_s=10.0 + at, placement=on("v100", n0=1)) for at in range(8)]
    first = image("first", 4, submitted_s=0.0)
    found, _ = plan("fifo", nodes(), first, *runs, provisioning="tune")
    assert set(found.placements) == {run.id for run in runs}
    found, _ = plan("fifo", nodes(), first, *runs, provisioning="tune", preempts=True)
    assert set(found.placements) == {"first", "r0", "r1", "r2", "r3"}
    assert make_policy("fifo", preempts=True).traits.preempts


def test_head_of_line_blocking_stays_with_provisioning() -> None:
    runs = [language(f"r{at}", placement=on("v100", n0=1)) for at in range(6)]
    wide, narrow = image("wide", 4, submitted_s=1.0), image("narrow", submitted_s=2.0)
    found, _ = plan("fifo", nodes(), *runs, wide, narrow, provisioning="priced")
    assert "narrow" not in found.placements
    waits = found.decision("narrow")
    assert isinstance(waits, Waiting)
    assert waits.reason is WaitReason.BEHIND_OTHERS


def test_a_job_that_may_not_be_stopped_keeps_its_gpus_and_gets_other_cpus() -> None:
    stays = image("stays", preemptible=False, placement=Placement("v100", (NodeShare("v100-000", 1, 3.0, 62.5),)))
    for mechanism in ("tune", "greedy", "optimal", "priced"):
        found, _ = plan("las", nodes(2), stays, image("new", 8), provisioning=mechanism)
        assert found.placements["stays"].by_node == {"v100-000": 1}
        assert amounts(found, "stays")[0] == 9.0


def test_greedy_says_that_cpus_are_lacking() -> None:
    jobs = [image(f"i{at}", submitted_s=at) for at in range(4)]
    found, _ = plan("fifo", nodes(), *jobs, provisioning="greedy", preempts=True)
    assert sorted(found.placements) == ["i0", "i1"]
    waits = found.decision("i2")
    assert isinstance(waits, Waiting)
    assert waits.reason is WaitReason.NO_CPUS_OR_MEMORY
    assert waits.detail == "It needs 9 CPUs and 20 GiB beside 1 GPU; free GPUs have less."


def test_what_a_user_gives_is_kept() -> None:
    for mechanism in ("tune", "priced", "greedy", "optimal"):
        jobs = [image("own", cpus_per_gpu=2.0, memory_gib_per_gpu=30.0), image("free", submitted_s=1.0)]
        found, _ = plan("fifo", nodes(), *jobs, provisioning=mechanism)
        assert amounts(found, "own") == (2.0, 30.0)
        assert amounts(found, "free")[0] == 9.0


def test_a_job_that_asks_for_more_than_there_is_beside_others_waits() -> None:
    runs = [image(f"r{at}", preemptible=False, placement=on("v100", n0=1)) for at in range(6)]
    greedy = image("own", cpus_per_gpu=20.0, submitted_s=9.0)
    for mechanism in ("tune", "priced", "optimal"):
        found, _ = plan("las", nodes(), *runs, greedy, provisioning=mechanism)
        assert "own" not in found.placements
        assert len(found.placements) == 6


def test_a_job_of_which_nothing_is_known_gets_its_share() -> None:
    found, _ = plan("fifo", nodes(), rigid("new", 2), provisioning="tune")
    assert amounts(found, "new") == (6.0, 125.0)


def test_the_gpu_step_limits_what_input_is_worth() -> None:
    # 16 samples/s are prepared by a CPU; an a100 takes 100 samples/s, a t4 takes 20.
    fast = MeasuredSensitivity.fit([(1, 16.0), (8, 128.0)])
    speeds = model({"a100": 100.0, "t4": 20.0}, first=32, most=32)
    for gpu_type, cpus in (("a100", 7.0), ("t4", 2.0)):
        job = rigid("job", sensitivity=fast, known=True, model=speeds)
        found, _ = plan("fifo", nodes(gpu_type=gpu_type), job, provisioning="tune")
        assert amounts(found, "job")[0] == cpus, gpu_type


def test_each_gpu_type_has_its_own_share_and_its_own_prices() -> None:
    both = Cluster((*nodes().nodes, *nodes(gpu_type="a100", cpus=64.0, memory_gib=1000.0).nodes))
    jobs = [image(f"i{at}", 4, submitted_s=at, rates={"v100": 1.0, "a100": 2.0}) for at in range(4)]
    found, _ = plan("fifo", both, *jobs, provisioning="priced")
    assert {job.split(" ")[0] for job in held(found).values()} == {"4xa100", "4xv100"}
    assert amounts(found, "i0")[0] == 32.0
    assert amounts(found, "i2")[0] == 12.0
    assert set(found.cpu_prices) == {"v100", "a100"}


def test_optimal_chooses_gpu_types_for_all_jobs_together() -> None:
    # The a100 node has few CPUs. Served in order, the image jobs take it; the language jobs make more of it.
    both = Cluster((*nodes().nodes, *nodes(gpu_type="a100", cpus=8.0, memory_gib=500.0).nodes))
    fast = {"v100": 1.0, "a100": 2.0}
    jobs = [image(f"i{at}", 4, submitted_s=at, rates={"v100": 1.0, "a100": 1.1}) for at in range(2)]
    jobs += [language(f"l{at}", 4, submitted_s=9.0, rates=fast) for at in range(2)]
    types: dict[str, dict[str, str]] = {}
    for mechanism in ("tune", "optimal"):
        found, _ = plan("fifo", both, *jobs, provisioning=mechanism)
        types[mechanism] = {job: placement.gpu_type for job, placement in found.placements.items()}
    assert types["tune"]["i0"] == "a100"
    assert types["optimal"] == {"i0": "v100", "i1": "v100", "l0": "a100", "l1": "a100"}


def test_terms_of_teams_decide_who_runs_and_provisioning_what_it_gets() -> None:
    sharing = Sharing({"a": TeamTerms(cap={"v100": 1}), "b": TeamTerms()}, {"a1": "a", "a2": "a", "b1": "b"})
    jobs = [image("a1"), image("a2", submitted_s=1.0), language("b1", submitted_s=2.0)]
    for policy in ("fifo", "las"):
        round = Round(1000.0, 300.0, nodes(), jobs, sharing=sharing)
        found = make_policy(policy, provisioning="tune").plan(round)
        assert sorted(found.placements) == ["a1", "b1"]
        assert (amounts(found, "a1")[0], amounts(found, "b1")[0]) == (9.0, 1.0)
        again = [replace(job, placement=found.placements.get(job.id)) for job in jobs]
        found = make_policy(policy, provisioning="tune").plan(
            Round(1300.0, 300.0, nodes(), again, sharing=sharing)
        )
        assert amounts(found, "a1")[0] == 9.0


def test_where_teams_decide_nobody_exceeds_a_node_beside_a_job_that_asks_for_much() -> None:
    sharing = Sharing({"a": TeamTerms()}, {"own": "a", **{f"i{at}": "a" for at in range(7)}})
    jobs = [image("own", cpus_per_gpu=20.0), *(image(f"i{at}", submitted_s=1.0 + at) for at in range(7))]
    round = Round(1000.0, 300.0, nodes(), jobs, sharing=sharing)
    for mechanism in ("proportional", "tune", "priced", "optimal", "greedy"):
        found = make_policy("las", provisioning=mechanism).plan(round)
        assert len(found.placements) == 5  # each starts with 1 CPU at least
        ledger = Ledger(nodes())
        for job, placement in found.placements.items():
            ledger.take(job, placement)  # raises where a node has less
        assert amounts(found, "own")[0] == 20.0
        assert all(amounts(found, id)[0] > 0 for id in found.placements)
        placed = found.decision("i0")
        assert isinstance(placed, Placed)
        assert placed.placement == found.placements["i0"]


def test_a_plan_that_stays_is_the_same_plan() -> None:
    jobs = [image(f"i{at}", submitted_s=at) for at in range(5)] + [language(f"l{at}") for at in range(3)]
    for mechanism in ("proportional", "tune", "priced", "greedy"):
        first, _ = plan("las", nodes(), *jobs, provisioning=mechanism)
        again = [replace(job, placement=first.placements.get(job.id)) for job in jobs]
        second, _ = plan("las", nodes(), *again, provisioning=mechanism)
        assert second.placements == first.placements


def test_bad_input_is_told_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="provisioning"):
        make_policy("fifo", provisioning="fair")
    for wrong in (-0.1, 1.0):
        with pytest.raises(ValueError, match="saturation"):
            make_policy("fifo", saturation=wrong)
    with pytest.raises(ValueError, match="cpus: node v100-000 states none"):
        plan("fifo", nodes(cpus=0.0), image("i"), provisioning="tune")
    with pytest.raises(ValueError, match="memory_gib: node v100-000 states none"):
        plan("fifo", nodes(memory_gib=0.0), image("i"), provisioning="priced")


@pytest.mark.parametrize("policy", ["fifo", "las", "srtf", "ftf", "themis"])
def test_who_runs_does_not_depend_on_cpus_and_nobody_waits_beside_gpus_that_it_could_have(policy: str) -> None:
    random = np.random.default_rng(4)
    preempts = {"preempts": True} if policy == "fifo" else {}
    for _ in range(10):
        made = [image if random.random() < 0.5 else language for _ in range(20)]
        jobs = [
            of(
                f"j{at}",
                int(random.choice([1, 1, 2, 4, 8])),
                submitted_s=float(at),
                expected=left(100.0 * (at % 7 + 1)),
            )
            for at, of in enumerate(made)
        ]
        runs = {}
        for mechanism in ("proportional", "tune", "priced"):
            found, _ = plan(policy, nodes(2), *jobs, provisioning=mechanism, **preempts)
            runs[mechanism] = set(found.placements)
            free = 16 - sum(placement.gpus for placement in found.placements.values())
            assert all(job.spec.asked_gpus > free for job in jobs if job.id not in found.placements)
        assert runs["proportional"] == runs["tune"] == runs["priced"]


# --- orders (check D1) ------------------------------------------------------------------------------------------


def order(policy: str, *jobs: JobView, **options: object) -> list[str]:
    found, _ = plan(policy, nodes(), *jobs, **options)
    assert found.order is not None
    return [jobs[at].id for at in found.order]


def test_orders_of_the_paper() -> None:
    old = image("old", submitted_s=1.0, expected=left(900.0), attained_gpu_s=500.0)
    short = image("short", submitted_s=2.0, expected=left(100.0), attained_gpu_s=400.0)
    new = image("new", submitted_s=999.0, expected=left(500.0), attained_gpu_s=0.0)
    assert order("fifo", old, short, new, provisioning="tune") == ["old", "short", "new"]
    assert order("srtf", old, short, new, provisioning="tune") == ["short", "new", "old"]
    assert order("las", old, short, new, provisioning="tune", thresholds_gpu_s=()) == ["new", "short", "old"]
    # ρ: (999+900)/(500+900), (998+100)/(400+100), (1+500)/500, as each has a GPU of its own.
    assert order("ftf", old, short, new, provisioning="tune") == ["short", "old", "new"]


def test_drf_serves_the_smallest_dominant_share_first() -> None:
    jobs = [image("image", submitted_s=0.0), language("wide", 2, submitted_s=1.0), language("l", submitted_s=2.0)]
    assert order("drf", *jobs, provisioning="greedy") == ["l", "wide", "image"]  # 1/8, 2/8 and 9/24
    assert order("drf", *jobs) == ["image", "l", "wide"]  # by what they ask for: GPUs alone
    found, round = plan("drf", nodes(), *jobs, provisioning="greedy")
    told = make_policy("drf", provisioning="greedy").explain("image", round, found)
    assert told.facts["dominant"] == "CPUs"
    assert told.facts["dominant_share"] == pytest.approx(9 / 24)


def test_tetris_serves_first_what_fits_best_and_ends_soon() -> None:
    jobs = [language("l"), image("image", submitted_s=1.0)]
    assert order("tetris", *jobs, shortness=0.0, provisioning="greedy") == ["image", "l"]
    soon = replace(jobs[0], expected=left(10.0)), replace(jobs[1], expected=left(10_000.0))
    assert order("tetris", *soon, shortness=5.0) == ["l", "image"]
