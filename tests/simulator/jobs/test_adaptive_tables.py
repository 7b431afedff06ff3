"""Jobs of tabulated goodput take the size their policy chooses, and progress as their table says of it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from coadapt.cli.main import run as cli
from coadapt.core.cluster import Cluster
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.training_config import Adaptivity
from coadapt.estimators.tabulated import TabulatedModel
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Planner, Round
from coadapt.policies.warm_up import COMPILING
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outages import Failures
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.adaptive_tables import AdaptiveTableWorld
from coadapt.simulator.jobs.goodput_tables import GoodputTable, read_tables
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import cluster_of, read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import TraceJob, Workload
from hypothesis import given, settings
from hypothesis import strategies as st

RESTART_S = 30.0
CLUSTER = "2x t4:4, 1x v100:8"
Held = tuple[str, dict[int, int]]  # GPU type, GPUs by node


def table(ends: list[float], **rates: list[float]) -> GoodputTable:
    """Make a table of rates by `<gpu type>_<gpus>`, of GPUs that may lie anyhow."""
    named = {(key.split("_")[0], int(key.split("_")[1])): np.array(column) for key, column in rates.items()}
    return GoodputTable("app", np.array(ends), named, RESTART_S)


GROWS = table(
    [400.0, 4000.0], t4_1=[1.0, 1.0], t4_2=[1.9, 1.8], t4_4=[3.5, 3.0], t4_8=[6.0, 5.0], v100_1=[2.0, 3.0]
)


def placed(cluster: Cluster, held: Held) -> Placement:
    gpu_type, nodes = held
    return Placement(gpu_type, tuple(NodeShare(cluster.of_type(gpu_type)[n].id, g) for n, g in nodes.items()))


@dataclass
class Scripted:
    """Gives the one job that is there what a list says, round by round, and notes the goodput that it is shown."""

    script: Sequence[Held | None]
    seen: list[dict[str, float]] = field(default_factory=list)

    def plan(self, round: Round) -> Plan:
        held = self.script[min(int(round.now / 60), len(self.script) - 1)]
        (job,) = round.jobs
        assert isinstance(job.model, TabulatedModel)
        items = job.model.configurations.items
        goodput = job.model.goodput.tolist()
        self.seen.append({f"{t}_{gpus}": value for (t, _, gpus), value in zip(items, goodput, strict=True)})
        return Plan({} if held is None else {job.id: placed(round.cluster, held)})


def world(table: GoodputTable, *jobs: TraceJob, noise: float = 0.0, seed: int = 0) -> AdaptiveTableWorld:
    jobs = jobs or (job(),)
    return AdaptiveTableWorld(Workload.of(jobs), [table] * len(jobs), ["t4", "v100"], noise, seed)


def job(id: str = "a", submit_s: float = 0.0, max_gpus: int = 64) -> TraceJob:
    return TraceJob(id, submit_s, application="app", adaptivity=Adaptivity.ADAPTIVE, max_gpus=max_gpus)


def late(id: str = "late") -> TraceJob:
    """Return a job that comes late, so that others may wait meanwhile."""
    return job(id, 1e6)


def run(world: AdaptiveTableWorld, policy: Planner, cluster: str = CLUSTER) -> Outcome:
    return Engine(world, cluster_of(cluster), policy, Timing(60.0)).run()


def test_a_change_of_shape_or_type_pauses_a_job_and_other_nodes_do_not() -> None:
    script: list[Held | None] = [("t4", {0: 2}), ("t4", {1: 2}), ("t4", {0: 2, 1: 2}), ("v100", {0: 1}), None]
    script.append(("v100", {0: 1}))
    outcome = run(world(GROWS, job(), late()), Scripted(script))
    # Rates are 1.9 for 30 s, 1.9 on the other node for 60 s, and 3.5 on two nodes for 30 s. After 30 s at 2 comes
    # a minute of nothing, then the rest of the first 400 at 2, and 3600 at 3.
    done = 30 * 1.9 + 60 * 1.9 + 30 * 3.5 + 30 * 2.0
    assert outcome.finished_s[0] == pytest.approx(300 + RESTART_S + (400 - done) / 2.0 + 3600 / 3.0)
    assert outcome.restarts[0] == 3
    assert outcome.held_s[0] == pytest.approx(outcome.finished_s[0] - 60)


def test_a_policy_is_shown_the_row_where_the_job_is() -> None:
    policy = Scripted([("t4", {0: 4, 1: 4})])
    run(world(GROWS), policy)
    first = {"t4_1": 1.0, "t4_2": 1.9, "t4_4": 3.5, "t4_8": 6.0, "v100_1": 2.0}
    second = {"t4_1": 1.0, "t4_2": 1.8, "t4_4": 3.0, "t4_8": 5.0, "v100_1": 3.0}
    # 180 by 60 s, 400 soon after 96 s.
    assert policy.seen[:2] == [first, first]
    assert all(shown == second for shown in policy.seen[2:])
    assert len(policy.seen) > 3


shapes = st.sampled_from([("t4", {0: 1}), ("t4", {0: 2}), ("t4", {1: 4}), ("t4", {0: 4, 1: 4}), ("v100", {0: 1})])


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.floats(1, 500), st.lists(st.floats(0.5, 9), min_size=5, max_size=5)), min_size=1, max_size=9
    ),
    st.lists(st.none() | shapes, min_size=1, max_size=8),
    shapes,
)
def test_a_job_ends_when_its_table_summed_by_hand_says(
    rows: list[tuple[float, list[float]]], script: list[Held | None], last: Held
) -> None:
    columns = ["t4_1", "t4_2", "t4_4", "t4_8", "v100_1"]
    ends = np.cumsum([length for length, _ in rows])
    app = table(ends.tolist(), **{name: [rates[i] for _, rates in rows] for i, name in enumerate(columns)})
    script = [*script, last]
    outcome = run(world(app, job(), late()), Scripted(script))
    now, done, pause, before, row = 0.0, 0.0, 0.0, None, 0
    while row < len(rows):
        held = script[min(round(now / 60), len(script) - 1)]
        shape = held and (held[0], tuple(held[1].values()))
        pause = RESTART_S if shape != before else pause
        before = shape
        left = 60.0
        while shape and left > 0 and row < len(rows):
            waits = min(pause, left)
            pause, left = pause - waits, left - waits
            if left <= 0:
                break
            rate = rows[row][1][columns.index(f"{shape[0]}_{sum(shape[1])}")]
            takes = (ends[row] - done) / rate
            if takes > left:
                done, left = done + rate * left, 0.0
            else:
                done, left, row = float(ends[row]), left - takes, row + 1
        now += 60.0 if row < len(rows) else 60.0 - left
    assert outcome.finished_s[0] == pytest.approx(now, rel=1e-9)


def test_jobs_alike_share_a_model_which_stays_the_same_object_until_their_row_changes() -> None:
    two = world(GROWS, job("a"), job("b"))
    assert two.told.model(0) is two.told.model(1)
    noisy = world(GROWS, job("a"), job("b"), noise=0.01)
    before, other = noisy.told.model(0), noisy.told.model(1)
    assert noisy.told.model(0) is before
    assert other.goodput.tolist() != before.goodput.tolist()
    t4 = Placement("t4", (NodeShare("n", 2),))
    noisy.moves(0, t4, 100.0)
    assert noisy.told.model(0) is before
    noisy.crosses(np.array([0]), [t4], np.array([400.0]))
    assert noisy.told.model(0) is not before
    assert noisy.told.model(1) is other


@settings(max_examples=30)
@given(st.floats(1e-6, 0.9), st.integers(0, 2**32))
def test_noise_is_one_factor_a_configuration_for_all_of_a_job(noise: float, seed: int) -> None:
    exact, noisy = world(GROWS), world(GROWS, noise=noise, seed=seed)
    factors = []
    for progress in (0.0, 1000.0):
        for w in (exact, noisy):
            w.moves(0, Placement("t4", (NodeShare("n", 1),)), progress)
        factors.append(noisy.told.model(0).goodput / exact.told.model(0).goodput)
    assert (np.abs(factors[0] - 1) <= noise * (1 + 1e-9)).all()
    assert np.ptp(factors[0]) > 0
    assert factors[1].tolist() == pytest.approx(factors[0].tolist())
    again = world(GROWS, noise=noise, seed=seed)
    again.moves(0, Placement("t4", (NodeShare("n", 1),)), 1000.0)
    assert again.told.model(0).goodput.tolist() == noisy.told.model(0).goodput.tolist()


def test_noise_is_what_policies_see_and_not_what_is_true() -> None:
    script: list[Held | None] = [("t4", {0: 1}), ("t4", {0: 4})]
    plain, noisy = Scripted(script), Scripted(script)
    assert run(world(GROWS), plain).finished_s == run(world(GROWS, noise=0.3), noisy).finished_s
    assert plain.seen[0] != noisy.seen[0]


def test_under_sia_a_job_at_most_doubles_what_it_had_and_grows_as_far_as_its_table() -> None:
    outcome = run(world(GROWS), make_policy("sia"), "4x t4:4")
    counts = [holding.gpus for holding in outcome.holdings if holding.gpus]
    assert counts[0] == 1
    assert max(counts) == 8
    largest = np.maximum.accumulate(counts)
    assert all(after <= 2 * before for before, after in pairwise(largest.tolist()))


def test_a_job_grows_no_further_than_its_trace_allows() -> None:
    outcome = run(world(GROWS, job(max_gpus=4)), make_policy("sia"), "4x t4:4")
    assert max(holding.gpus for holding in outcome.holdings) == 4


def test_a_rigid_job_has_the_gpus_it_asks_for_beside_jobs_that_adapt() -> None:
    rigid = TraceJob("rigid", 0.0, 2, application="app")
    outcome = run(world(GROWS, rigid, job("adapts")), make_policy("sia"), "2x t4:4")
    assert {holding.gpus for holding in outcome.holdings if holding.job == 0} == {0, 2}
    assert {holding.gpus for holding in outcome.holdings if holding.job == 1} >= {0, 1, 2, 4}


def test_gpus_of_a_measured_goodput_lie_on_the_nodes_it_was_measured_on() -> None:
    measured = GoodputTable(
        "app",
        np.array([1000.0]),
        {("t4", 1): np.array([1.0]), ("t4", 8): np.array([8.0])},
        RESTART_S,
        {("t4", 1): 1, ("t4", 8): 2},
    )
    on_two, on_one = (AdaptiveTableWorld(Workload.of([job()]), [measured], ["t4"]) for _ in range(2))
    two = Placement("t4", (NodeShare("n", 4), NodeShare("o", 4)))
    assert on_two.moves(0, two, 0.0).per_s == 8.0
    with pytest.raises(ValueError, match="app: has no goodput of 8 t4 on 1 nodes"):
        on_one.moves(0, Placement("t4", (NodeShare("n", 8),)), 0.0)


def test_jobs_whose_nodes_fail_go_on_elsewhere_and_end() -> None:
    jobs = [job(f"j{i}", 30.0 * i) for i in range(10)]
    failures = Failures(mean_up_s=1800.0, repair_s=300.0, seed=1)
    engine = Engine(world(GROWS, *jobs), cluster_of(CLUSTER), make_policy("sia"), Timing(60.0), failures)
    outcome = engine.run()
    assert outcome.failures.sum() > 0
    calm = run(world(GROWS, *jobs), make_policy("sia"))
    assert outcome.finished_s.max() > calm.finished_s.max()


def test_a_run_goes_on_from_a_pickle_as_if_it_had_never_stopped() -> None:
    jobs = [job(f"j{i}", 20.0 * i) for i in range(12)]

    def engine() -> Engine:
        return Engine(world(GROWS, *jobs, noise=0.005), cluster_of(CLUSTER), make_policy("sia"), Timing(60.0))

    straight, stopped = engine(), engine()
    whole = straight.run()
    for _ in range(9):
        stopped.step()
    later = pickle.loads(pickle.dumps(stopped)).run()
    assert later.finished_s.tolist() == whole.finished_s.tolist()
    assert later.holdings == whole.holdings


@pytest.mark.parametrize(
    ("given", "noise", "reason"),
    [
        (job(), 1.0, "noise: 1.0 must be at least 0 and less than 1"),
        (job(), -0.1, "noise: -0.1 must be"),
        (job(max_gpus=1), 0.0, "job a: app needs 2 GPUs, more than max_gpus 1"),
        (TraceJob("a", 0.0, 3, application="app"), 0.0, "job a: app has no goodputs with 3 GPUs"),
        (TraceJob("a", 0.0, 1, application="app"), 0.0, "job a: app has no goodputs with 1 GPU$"),
    ],
)
def test_a_job_that_cannot_run_is_told_in_one_sentence(given: TraceJob, noise: float, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        world(table([10.0], t4_2=[1.0]), given, noise=noise)


def test_a_job_of_no_type_of_the_cluster_is_told() -> None:
    with pytest.raises(ValueError, match="app: has no goodputs on a100"):
        AdaptiveTableWorld(Workload.of([job()]), [GROWS], ["a100"])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Write a trace and a folder of tables."""
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "bert.csv").write_text("progress,t4:1n1g,t4:1n2g,t4:1n4g,t4:2n8g\n200,1,1.9,3.6,6\n900,1,1.9,3,5\n")
    profile = {"v100": {"min_gpus": 2, "throughput": 5}, "t4": {"min_gpus": 4, "throughput": 3}}
    batch = {"llama": {"num_iters": 4000, "sim_speedup": 2, "gpu_profiles": profile}}
    (folder / "batch_inference.json").write_text(json.dumps(batch))
    trace = tmp_path / "trace.csv"
    lines = [f"b{i},{40 * i},SiaJob,bert\n" for i in range(6)]
    trace.write_text("name,time,category,application\n" + "".join(lines))
    return trace, folder


def test_the_policy_decides_whether_jobs_adapt(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace, folder = files
    arguments = ["simulate", "--trace", str(trace), "--profiles", str(folder), "--cluster", CLUSTER, "--json"]
    policies = ["--policy", "sia", "--policy", "coadapt", "--policy", "las"]
    assert cli([*arguments, *policies, "--noise", "0.005", "--out", str(tmp_path / "out")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: figures["jobs"] for name, figures in found.items()} == {"sia": 6, "coadapt": 6, "las": 6}
    # Under las each has the eight GPUs that it would be tuned to, one after the other.
    assert found["sia"]["mean_jct_h"] < found["las"]["mean_jct_h"]
    assert cli([*arguments, "--policy", "pollux"]) == 2
    told = capsys.readouterr().err
    assert "pollux needs fitted throughput models" in told
    # Kernels may have to be compiled first, of which it is told too.
    assert len([line for line in told.splitlines() if COMPILING not in line]) == 1


def test_batch_inference_holds_whole_replicas_only(files: tuple[Path, Path]) -> None:
    llama = read_tables(files[1])["llama"]
    jobs = Workload.of([job(f"l{i}") for i in range(5)])
    outcome = run(AdaptiveTableWorld(jobs, [llama] * 5, ["t4", "v100"]), make_policy("sia"))
    held = {(holding.gpu_type, holding.gpus) for holding in outcome.holdings if holding.gpus}
    assert held <= {("v100", 2), ("v100", 4), ("v100", 8), ("t4", 4), ("t4", 8)}
    assert {t for t, _ in held} == {"t4", "v100"}


def test_equal_seeds_give_equal_runs_and_the_seed_is_of_the_noise(files: tuple[Path, Path]) -> None:
    trace, folder = files
    nodes = read_cluster(CLUSTER)
    source = source_of(False, folder, nodes)

    def finished(seed: int) -> list[float]:
        under = Conditions(noise=0.2, seed=seed)
        return simulation(read_trace(trace), nodes, "sia", {}, source, under).run().finished_s.tolist()

    assert finished(1) == finished(1)
    assert len({tuple(finished(seed)) for seed in range(4)}) > 1
