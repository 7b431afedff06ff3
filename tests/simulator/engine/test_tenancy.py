"""Two jobs on one GPU in virtual time: the speed of each depends on who is beside it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.errors import BadPlan
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.engine.tenancy import Tenancy
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.shared_speeds import MeasuredPairs
from coadapt.simulator.traces.workload import TraceJob, Workload

NODE = Cluster((Node("n", "t4", 2),))
PAIRS = {("a", "b"): 0.9, ("b", "a"): 0.8}


def part(*devices: int, share: float = 1.0) -> Placement:
    return Placement("t4", (NodeShare("n", len(devices), share=share, devices=devices),))


class Scripted:
    """Gives what a table says of each time, to the jobs that are there."""

    def __init__(self, says: Mapping[float, Mapping[str, Placement]]) -> None:
        self._says = says

    def plan(self, round: Round) -> Plan:
        at = max(time for time in self._says if time <= round.now)
        there = set(round.columns.ids.tolist())
        return Plan({job: placement for job, placement in self._says[at].items() if job in there})


def run(jobs: list[TraceJob], says: Mapping[float, Mapping[str, Placement]]) -> Outcome:
    world = FixedLengthWorld(Workload.of(jobs))
    pairs = MeasuredPairs([job.id for job in jobs], PAIRS, lambda job, other: 0.5)
    return Engine(world, NODE, Scripted(says), Timing(60.0), pairs=pairs).run()


A, B, C = TraceJob("a", 0.0, 1, 90.0), TraceJob("b", 0.0, 1, 240.0), TraceJob("c", 0.0, 1, 100.0)


def test_the_survivor_is_at_full_speed_from_the_instant_in_which_its_partner_ends() -> None:
    out = run([A, B], {0.0: {"a": part(0, share=0.5), "b": part(0, share=0.5)}})
    assert out.finished_s[0] == pytest.approx(100.0)  # 90 s of work at 0.9
    assert out.finished_s[1] == pytest.approx(100.0 + (240.0 - 80.0))  # 80 s of work are done at 100 s
    assert (out.restarts == 0).all()


def test_a_partner_that_comes_is_no_move_and_slows_from_then_on() -> None:
    says = {0.0: {"b": part(0)}, 60.0: {"a": part(0, share=0.5), "b": part(0, share=0.5)}}
    out = run([A, B], says)
    assert out.finished_s[0] == pytest.approx(160.0)
    assert out.finished_s[1] == pytest.approx(160.0 + (240.0 - 60.0 - 80.0))
    assert (out.restarts + out.preemptions == 0).all()


def test_gpu_seconds_go_by_the_part_that_is_held() -> None:
    out = run([A, B], {0.0: {"a": part(0, share=0.5), "b": part(0, share=0.5)}})
    assert out.attained_gpu_s[0] == pytest.approx(50.0)
    assert {change.gpus for change in out.holdings} == {0.5, 0}


def test_jobs_on_other_gpus_and_unmeasured_pairs() -> None:
    out = run([A, C], {0.0: {"a": part(0), "c": part(1)}})
    assert out.finished_s.tolist() == pytest.approx([90.0, 100.0])
    both = run([A, C], {0.0: {"a": part(0, share=0.5), "c": part(0, share=0.5)}})
    assert both.finished_s[0] == pytest.approx(180.0), "a pair that was not measured is not free"


def test_no_pair_is_faster_than_apart() -> None:
    pairs = MeasuredPairs(["a", "b"], {("a", "b"): 1.3}, lambda job, other: 1.0)
    assert pairs.speed(0, [1]) == 1.0


def test_a_third_job_on_a_gpu_ends_the_run() -> None:
    third = {job: part(0, share=0.5) for job in "abc"}
    with pytest.raises(BadPlan, match="GPU 0"):
        run([A, B, C], {0.0: third})


def test_without_pair_speeds_no_gpu_is_shared() -> None:
    world = FixedLengthWorld(Workload.of([A, B]))
    says = {0.0: {"a": part(0, share=0.5), "b": part(0, share=0.5)}}
    with pytest.raises(BadPlan, match="GPU 0"):
        Engine(world, NODE, Scripted(says), Timing(60.0)).run()


@pytest.mark.parametrize("seed", range(10))
def test_who_is_beside_whom_is_the_same_as_counted_anew(seed: int) -> None:
    random, tenancy, held = np.random.default_rng(seed), Tenancy(), dict[int, Placement]()
    for job in range(40):
        if held and random.random() < 0.4:
            gone = int(random.choice(list(held)))
            tenancy.leave(gone)
            del held[gone]
        held[job] = part(*random.choice(4, 2, replace=False).tolist(), share=0.5)
        tenancy.take(job, held[job])
        for one, at in held.items():
            others = {other for other, there in held.items() if other != one and there.devices & at.devices}
            assert set(tenancy.beside(one)) == others
