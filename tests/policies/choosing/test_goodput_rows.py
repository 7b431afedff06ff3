"""Goodput kept from round to round: computed again where a model says something else, and only there."""

from dataclasses import replace

import numpy as np
import pytest
from coadapt.core.cluster import Cluster
from coadapt.estimators.goodput import GoodputModel, goodput_matrix
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.goodput_rows import GoodputRows
from coadapt.policies.contract.configuration import ConfigurationSet
from coadapt.policies.contract.round import JobView, Round
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.changing_jobs import Workload
from tests.support.changing_jobs import cluster as nodes
from tests.support.rounds import assert_within, cluster, job, model, spec, tabulated

SET = ConfigurationSet(cluster("2x a:4, 1x b:8"))


def view(id: str, speed: float | None, link: float = 0.01) -> JobView:
    found = None if speed is None else model({"a": speed, "b": 2 * speed}, link)
    return replace(job(id), model=found)


def right(rows: GoodputRows, jobs: list[JobView], configurations: ConfigurationSet = SET) -> None:
    """Check that what is kept is what goodput_matrix says, as float32."""
    wanted = goodput_matrix([j.model for j in jobs], configurations.arrays)
    wanted = np.where(np.isfinite(wanted), wanted, 0.0).astype(np.float32)
    assert (rows.of(jobs) == wanted.astype(float)).all()


def test_rows_are_computed_when_jobs_come_and_kept_while_their_models_stay() -> None:
    rows, jobs = GoodputRows(0.0), [view("x", 10.0), view("y", 20.0), view("z", None)]
    assert rows.update(jobs, SET).tolist() == [True, True, True]
    right(rows, jobs)
    assert not rows.update(jobs, SET).any()
    right(rows, jobs)
    assert (rows.of(jobs[2:]) == 0).all()


def test_at_tolerance_0_any_other_model_is_computed() -> None:
    rows, jobs = GoodputRows(0.0), [view("x", 10.0), view("y", 20.0)]
    rows.update(jobs, SET)
    jobs[1] = view("y", 20.0 * (1 + 1e-9))
    assert rows.update(jobs, SET).tolist() == [False, True]
    right(rows, jobs)


def test_within_the_tolerance_a_row_stays_and_beyond_it_is_computed() -> None:
    rows, first = GoodputRows(0.05), [view("x", 10.0), view("y", 20.0)]
    rows.update(first, SET)
    near = [view("x", 10.3), view("y", 22.0)]
    assert rows.update(near, SET).tolist() == [False, True]
    assert (rows.of(near[:1]) == rows.of(first[:1])).all()
    right(rows, near[1:])


def test_small_changes_add_up_to_one_that_counts() -> None:
    """They are measured from the row that is kept, not from the last model."""
    rows = GoodputRows(0.05)
    speeds = 10.0 * 1.02 ** np.arange(7)
    moved = [bool(rows.update([view("x", float(speed))], SET)[0]) for speed in speeds]
    assert moved == [True, False, False, True, False, False, True]


def test_a_change_on_one_type_or_at_many_gpus_only_is_seen() -> None:
    table = {"1xa": 1.0, "2xa": 2.0, "4xa": 4.0, "8xa (2 nodes)": 8.0, "1xb": 3.0, "8xb": 20.0}
    rows = GoodputRows(0.1)
    jobs = [replace(job("x"), model=tabulated(table)), replace(job("y"), model=tabulated(table))]
    rows.update(jobs, SET)
    jobs = [
        replace(jobs[0], model=tabulated({**table, "8xa (2 nodes)": 6.0})),
        replace(jobs[1], model=tabulated({**table, "8xb": 21.0})),
    ]
    assert rows.update(jobs, SET).tolist() == [True, False]
    right(rows, jobs[:1])


def test_a_type_that_can_be_used_from_now_on_or_no_longer_is_seen_at_any_tolerance() -> None:
    rows = GoodputRows(0.99)
    both, one = model({"a": 10.0, "b": 20.0}), model({"a": 10.0})
    rows.update([replace(job("x"), model=one)], SET)
    assert rows.update([replace(job("x"), model=both)], SET).tolist() == [True]
    assert rows.update([replace(job("x"), model=one)], SET).tolist() == [True]
    right(rows, [replace(job("x"), model=one)])


def test_a_model_that_is_learnt_or_lost_is_seen_at_any_tolerance() -> None:
    rows, known, unknown = GoodputRows(0.99), [view("x", 10.0)], [view("x", None)]
    rows.update(unknown, SET)
    assert rows.update(known, SET).tolist() == [True]
    right(rows, known)
    assert rows.update(unknown, SET).tolist() == [True]
    assert (rows.of(unknown) == 0).all()


def test_a_job_that_left_and_is_back_is_computed_and_so_is_one_in_its_place() -> None:
    rows, x, y = GoodputRows(0.5), view("x", 10.0), view("y", 20.0)
    rows.update([x], SET)
    assert rows.update([y], SET).tolist() == [True]
    assert len(rows) == 1
    right(rows, [y])
    assert rows.update([x, y], SET).tolist() == [True, False]
    right(rows, [x, y])
    assert not len(rows.update([], SET))
    assert len(rows) == 0


OTHER = ConfigurationSet(cluster("3x a:4, 1x b:8, 1x c:2"), {("a", 3, 1)})  # more of a; b as it was


def test_rows_of_other_configurations_are_others_and_of_the_same_models() -> None:
    rows, jobs = GoodputRows(0.5), [view("x", 10.0), view("y", None)]
    rows.update(jobs, SET)
    assert rows.update(jobs, OTHER).all()
    right(rows, jobs, OTHER)
    # A model that says nearly the same does not count for what is new either.
    assert rows.update([view("x", 10.1), jobs[1]], SET).all()
    right(rows, jobs)


def test_a_node_more_or_less_of_the_same_configurations_computes_nothing() -> None:
    rows, jobs = GoodputRows(0.0), [view("x", 10.0), view("y", None)]
    rows.update(jobs, ConfigurationSet(cluster("3x a:4, 1x b:8"), most_gpus=8))
    fewer = ConfigurationSet(cluster("2x a:4, 1x b:8"), most_gpus=8)
    assert not rows.update(jobs, fewer).any()
    right(rows, jobs, fewer)


def test_memory_does_not_grow_with_jobs_that_have_left() -> None:
    rows = GoodputRows(0.0)
    for step in range(20):
        jobs = [view(f"job-{step}-{i}", 1.0 + i) for i in range(100)]
        assert rows.update(jobs, SET).all()
        right(rows, jobs)
        if step == 0:
            first = rows.gib
    assert rows.gib <= 2 * first


speeds = st.none() | st.floats(1.0, 100.0)


rounds = st.tuples(st.dictionaries(st.sampled_from("uvwxyz"), speeds), st.sampled_from([SET, SET, OTHER]))


@given(st.lists(rounds, max_size=8), st.sampled_from([0.0, 0.2]))
@settings(max_examples=60)
def test_after_any_rounds_rows_are_those_of_the_model_within_the_tolerance(
    script: list[tuple[dict[str, float | None], ConfigurationSet]], tolerance: float
) -> None:
    rows = GoodputRows(tolerance)
    last: dict[str, GoodputModel | None] = {}
    before = None
    for entries, configurations in script:
        jobs = [view(id, speed, link=0.0) for id, speed in sorted(entries.items())]
        moved = rows.update(jobs, configurations)
        fresh = np.array([j.id not in last for j in jobs], bool)
        assert moved[fresh].all()
        exact = goodput_matrix([j.model for j in jobs], configurations.arrays)
        found = rows.of(jobs)
        assert (np.abs(found - exact) <= tolerance * found + 1e-6 * exact).all()
        computed = fresh if configurations is not before else moved
        right(rows, [j for j, is_new in zip(jobs, computed, strict=True) if is_new], configurations)
        last, before = {j.id: j.model for j in jobs}, configurations


class Mixed(Workload):
    """Jobs of all kinds, on nodes that go down and come back."""

    def _new(self, age_s: float = 0.0) -> JobView:
        found, rng = super()._new(age_s), self.rng
        kinds = [
            spec(found.id, max_gpus=int(2 ** rng.integers(1, 6)), preemptible=bool(rng.random() < 0.8)),
            spec(
                found.id, reservation={"gpu_type": str(rng.choice(["t4", "rtx"])), "gpus": int(rng.integers(1, 6))}
            ),
            spec(found.id, adaptivity="rigid", gpus=int(rng.integers(1, 7))),
            spec(found.id, min_gpus=3, max_gpus=12, gpus_per_replica=3),
        ]
        return replace(found, spec=kinds[rng.choice(4, p=[0.6, 0.1, 0.2, 0.1])])

    def fail(self, whole: Cluster) -> None:
        down = self.rng.choice(len(whole.nodes), int(self.rng.integers(0, 3)), replace=False)
        up = tuple(node for i, node in enumerate(whole.nodes) if i not in down)
        self.cluster = Cluster(up)
        ids = {node.id for node in up}
        self.jobs = [
            replace(j, placement=None)
            if j.placement is not None and not {share.node_id for share in j.placement.shares} <= ids
            else j
            for j in self.jobs
        ]


@pytest.mark.parametrize("options", [{}, {"p": 1.0}, {"restart_factor": False}], ids=str)
def test_sia_that_keeps_its_program_plans_as_one_that_begins_anew(options: dict[str, object]) -> None:
    """Over 30 rounds of jobs that come, go and learn, on nodes that fail: objectives equal within the gap."""
    whole = Cluster(nodes(t4=(4, 4), rtx=(2, 8), a100=(1, 8)).nodes + cluster("2x rtx:6").nodes)
    workload = Mixed(whole, 20, seed=3)
    # No round ends by its time limit, however long kernels are compiled in the first one.
    exact: dict[str, object] = {"gap": 1e-6, "tolerance": 0.0, "time_limit_s": 1e4, **options}
    kept = make_policy("sia", **exact)
    for step in range(30):
        if step % 4 == 3:
            workload.fail(whole)
        round = workload.round()
        plan, anew = kept.plan(round), make_policy("sia", **exact).plan(round)
        assert_within(plan, round.cluster)
        assert plan.objective == pytest.approx(anew.objective, rel=3e-6)
        assert plan.bound == pytest.approx(anew.bound, rel=3e-6)
        assert {note.text for note in plan.notes} == {note.text for note in anew.notes}
        workload.step(plan)


def test_a_round_without_jobs_in_between_loses_nothing() -> None:
    workload = Workload(nodes(t4=(4, 4), a100=(1, 8)), 8, seed=1)
    kept = make_policy("sia", gap=1e-6)
    kept.plan(workload.round())
    assert not kept.plan(Round(60.0, 60.0, workload.cluster, [])).placements
    again, anew = kept.plan(workload.round()), make_policy("sia", gap=1e-6).plan(workload.round())
    assert again.objective == pytest.approx(anew.objective, rel=3e-6)
