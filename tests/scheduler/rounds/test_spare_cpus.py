"""CPUs that a plan leaves to nobody show how fast inputs are with more of them."""

from __future__ import annotations

from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec
from coadapt.core.placement import NodeShare, Placement
from coadapt.estimators.sensitivity.measured import MeasuredSensitivity
from coadapt.policies.contract.round import JobView
from coadapt.scheduler.rounds.spare_cpus import tried_next, with_spare
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import measured

NODE = Node("n", "t4", 8, cpus=24.0, memory_gib=512.0)
WHERE = Cluster((NODE, Node("m", "t4", 8, cpus=24.0, memory_gib=512.0)))
SPEC = JobSpec(name="j", script="t.py")
CLIMBS = MeasuredSensitivity((1.0, 2.0, 3.0), (10.0, 20.0, 30.0))
FLAT = MeasuredSensitivity((1.0, 3.0), (10.0, 10.0))


def on(gpus: int, cpus: float, node: str = "n") -> Placement:
    return Placement("t4", (NodeShare(node, gpus, cpus, 1.0),))


def spare(placements: dict[str, Placement], runs: set[str], **tried: int) -> dict[str, list[float]]:
    found = with_spare(placements, placements, WHERE, runs, tried)
    return {job: [share.cpus for share in one.shares] for job, one in found.items()}


def test_a_profile_run_is_given_the_cpus_that_are_left() -> None:
    assert spare({"j": on(2, 6.0), "run": on(1, 1.0)}, {"run"}) == {"j": [6.0], "run": [18.0]}
    few = Cluster((Node("n", "t4", 8, cpus=4.0, memory_gib=512.0),))
    placements = {"run": on(1, 1.0)}
    assert with_spare(placements, placements, few, placements, {})["run"] is placements["run"]


def test_a_job_whose_input_climbs_tries_twice_as_many_cpus_as_were_measured() -> None:
    jobs = [JobView(id, SPEC, sensitivity=one) for id, one in (("a", CLIMBS), ("b", FLAT), ("c", None))]
    placements = {"a": on(2, 6.0), "b": on(1, 3.0), "c": on(1, 3.0)}
    assert tried_next(jobs, placements, WHERE) == {"a": 6}
    assert spare(placements, set(), a=6) == {"a": [12.0], "b": [3.0], "c": [3.0]}


def test_a_job_whose_gpus_are_slower_than_its_input_tries_nothing() -> None:
    batch = SPEC.training.model_copy(update={"initial_batch_size": 8})
    model = measured("t4").job_model(batch, {"*": 1})  # 80 samples/s
    assert model is not None
    fast = MeasuredSensitivity((1.0, 2.0), (1e4, 2e4))
    jobs = [JobView("slow", SPEC, model, sensitivity=CLIMBS), JobView("fast", SPEC, model, sensitivity=fast)]
    assert set(tried_next(jobs, {"slow": on(1, 3.0), "fast": on(1, 3.0)}, WHERE)) == {"slow"}


def test_whole_cpus_are_tried_as_many_as_there_are_on_each_node_of_a_job() -> None:
    split = Placement("t4", (NodeShare("m", 1, 3.0, 1.0), NodeShare("n", 2, 6.0, 1.0)))
    assert spare({"a": split, "other": on(6, 11.0)}, set(), a=6) == {"a": [6.0, 12.0], "other": [11.0]}
    assert spare({"a": split, "other": on(6, 15.0)}, set(), a=6) == {"a": [4.0, 8.0], "other": [15.0]}
    assert spare({"a": split, "other": on(6, 17.0)}, set(), a=6) == {"a": [3.0, 6.0], "other": [17.0]}


def test_who_was_given_a_number_keeps_it() -> None:
    placements = {"a": on(1, 3.0)}
    assert with_spare(placements, set(), WHERE, set(), {"a": 6})["a"] is placements["a"]


@given(st.lists(st.tuples(st.integers(1, 3), st.floats(0.1, 5.0), st.integers(0, 12), st.booleans()), max_size=6))
def test_no_cpu_is_given_twice_and_nobody_has_fewer(jobs: list[tuple[int, float, int, bool]]) -> None:
    placements: dict[str, Placement] = {}
    tried, runs, cpus = {}, set(), 0.0
    for number, (gpus, has, tries, run) in enumerate(jobs):
        if cpus + has > NODE.cpus:
            continue
        cpus += has
        placements[str(number)], tried[str(number)] = on(gpus, has), tries
        if run:
            runs.add(str(number))
    found = with_spare(placements, placements, WHERE, runs, tried)
    assert sum(one.shares[0].cpus for one in found.values()) <= NODE.cpus + 1e-6
    for job, before in placements.items():
        assert found[job].shares[0].cpus >= before.shares[0].cpus
