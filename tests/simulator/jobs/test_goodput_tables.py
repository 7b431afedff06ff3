"""Jobs whose goodput is tabulated progress as their tables say, and ask for what a tuned job would."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.catalogue import make_policy
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.goodput_tables import GoodputTable, GoodputTableWorld, read_tables, requested
from coadapt.simulator.jobs.world import ProgressRate
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import TraceJob, Workload
from hypothesis import given, settings
from hypothesis import strategies as st

RESTART_S = 30.0


def table(ends: list[float], restart_s: float = RESTART_S, **rates: list[float]) -> GoodputTable:
    """Make a table of rates by `<gpu type>_<gpus>`."""
    named = {(key.split("_")[0], int(key.split("_")[1])): np.array(column) for key, column in rates.items()}
    return GoodputTable("app", np.array(ends), named, restart_s)


def run(table: GoodputTable, cluster: str, *jobs: TraceJob) -> Outcome:
    workload = Workload.of(jobs)
    world = GoodputTableWorld(workload, [table] * len(workload))
    return Engine(world, cluster_of(cluster), make_policy("las"), Timing(60.0)).run()


def test_a_job_takes_each_row_at_its_own_speed_after_its_start() -> None:
    app = table([100.0, 150.0, 400.0], t4_2=[2.0, 2.0, 5.0])
    outcome = run(app, "1x t4:4", TraceJob("a", 0.0, 2, application="app"))
    assert outcome.finished_s.tolist() == [RESTART_S + 75 + 50]


def test_a_job_that_moves_to_another_type_keeps_its_progress() -> None:
    app = table([9_000.0, 20_000.0], t4_2=[1.0, 1.0], v100_2=[2.0, 4.0])
    world = GoodputTableWorld(Workload.of([TraceJob("a", 0.0, 2, application="app")]), [app])
    t4, v100 = (Placement(t, (NodeShare("n", 2),)) for t in ("t4", "v100"))
    assert world.moves(0, t4, 0.0) == ProgressRate(1.0, 20_000.0)  # rows alike are one
    assert world.moves(0, v100, 8_000.0) == ProgressRate(2.0, 9_000.0)
    assert world.moves(0, v100, 9_000.0) == ProgressRate(4.0, 20_000.0)
    assert world.moves(0, t4, 9_000.0) == ProgressRate(1.0, 20_000.0)
    world.moves(0, v100, 8_000.0)
    job, at = np.array([0]), np.array([9_000.0])
    assert [column.tolist() for column in world.crosses(job, [v100], at)] == [[4.0], [20_000.0]]
    assert world.crosses(job, [v100], at)[0].tolist() == pytest.approx([np.nan], nan_ok=True)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(1, 1e4), st.sampled_from([0.5, 1.0, 3.0])), min_size=1, max_size=30),
    st.integers(0, 3),
)
def test_time_to_the_end_is_the_sum_over_rows(rows: list[tuple[float, float]], extra: int) -> None:
    lengths, rates = np.array(rows).T
    app = table(np.cumsum(lengths).tolist(), t4_1=rates.tolist())
    jobs = [TraceJob(f"j{i}", 60.0 * i, 1, application="app") for i in range(extra + 1)]
    outcome = run(app, "1x t4:4", *jobs)
    expected = RESTART_S + (lengths / rates).sum()
    assert outcome.jct_s == pytest.approx(expected, rel=1e-9)
    assert app.duration_s("t4", 1) == pytest.approx(expected - RESTART_S, rel=1e-9)


def test_the_request_is_the_most_gpus_that_are_half_as_efficient_on_the_median_type() -> None:
    app = table(
        [100.0],
        slow_1=[1.0], slow_2=[2.0], slow_64=[64.0],
        median_1=[2.0], median_2=[3.0], median_4=[4.0], median_8=[7.9],
        fast_1=[9.0], fast_128=[9.0 * 128],
    )  # fmt: skip
    assert app.request(["slow", "median", "fast"]) == 4
    assert app.request(["slow", "fast"]) == 64  # of two the slower
    assert app.request(["fast"]) == 1  # 128 are more than anyone asks for
    with pytest.raises(ValueError, match="app: has no goodputs on other"):
        app.request(["other"])


def test_a_folder_of_tables_and_a_trace(tmp_path: Path) -> None:
    (tmp_path / "bert.csv").write_text("progress,aws:1n1g,aws:1n2g\n10,1.2,2.4\n30,1.2,1.2\n")
    quadro = {"min_gpus": 2, "throughput": 5}
    batch = {"llama": {"num_iters": 100, "sim_speedup": 2, "gpu_profiles": {"quadro": quadro}}}
    (tmp_path / "batch_inference.json").write_text(json.dumps(batch))
    synthetic = {
        "max_progress": 50,
        "goodputs": {"num_gpus": [1, 128, 132]}
        | {
            name: [1.0, 1.5, 1.6]
            for name in (
                "DGX-A100-40GB", "DGX-V100-32GB", "A100-40GB-PCIe", "A10-24GB-PCIe", "RTX-2080Ti-11GB", "T4-16GB",
            )
        },
    }  # fmt: skip
    (tmp_path / "synthetic_short.json").write_text(json.dumps(synthetic))
    tables = read_tables(tmp_path)
    assert tables["bert"].rates["aws", 2].tolist() == [2.0, 1.0]  # 1.2 times slower than tabulated
    assert tables["llama"].duration_s("quad", 4) == 5.0
    assert tables["bert"].nodes["aws", 2] == 1
    assert tables["synthetic_short"].duration_s("aws", 1) == 50.0
    # Computed for any nodes, and used up to 128 GPUs as in the code that it comes from.
    assert {gpus for _, gpus in tables["synthetic_short"].rates} == {1, 128}
    assert not tables["synthetic_short"].nodes

    trace = tmp_path / "trace"
    trace.write_text("name,time,category,application\na,1,SiaJob,bert\nb,2.5,BatchInferenceJob,llama\n")
    workload, of_job = requested(read_trace(trace), tables, ["aws", "quad"])
    assert [t.name for t in of_job] == ["bert", "llama"]
    assert workload.gpus.tolist() == [2, 64]
    assert (workload.max_gpus >= 128).all()  # tables say how far a job grows

    trace.write_text("name,time,category,application\na,1,SiaJob,vgg\n")
    with pytest.raises(ValueError, match="job a: application 'vgg' has no goodput table; there are bert"):
        requested(read_trace(trace), tables, ["aws"])
    trace.write_text("name,time,category,application\na,1,Other,bert\n")
    with pytest.raises(ValueError, match="line 2: category 'Other'"):
        read_trace(trace)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("bert.csv", "progress,aws\n1,2\n", "column 'aws' is not of the form 'azure:1n2g'"),
        ("bert.csv", "progress,aws:1n1g\n5,2\n5,2\n", "bert: progress must rise"),
        ("synthetic.json", "{}", "synthetic.json: cannot be read: 'goodputs'"),
        ("notes.txt", "", "no goodput tables"),
    ],
)
def test_a_wrong_table_is_told_in_one_sentence(tmp_path: Path, name: str, content: str, reason: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=reason) as error:
        read_tables(tmp_path)
    assert "\n" not in str(error.value)
