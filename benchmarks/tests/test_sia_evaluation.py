"""The evaluation's traces are what they say they are, and its tables say what was measured."""

import numpy as np
import pytest
from coadapt.benchmarks.evaluation import hybrid, page, workloads
from coadapt.benchmarks.evaluation.experiments import Claim, Experiment, Group
from coadapt.benchmarks.evaluation.grid import Value
from coadapt.benchmarks.evaluation.paper import Said
from coadapt.core.training_config import Adaptivity
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.replay import simulation
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload

ROWS = [
    {"name": f"bert-{i}", "time": str(time_s), "application": "bert", "num_replicas": "4", "batch_size": "96"}
    for i, time_s in enumerate([*range(0, 36_000, 900), *range(40_000, 50_000, 100), *range(60_000, 90_000, 900)])
]


def submitted(rows: list[workloads.Row]) -> np.ndarray:
    return np.array([float(row["time"]) for row in rows])


def test_a_spike_is_the_busiest_hours_and_no_more() -> None:
    rows = workloads.spike(ROWS, jobs=80)
    assert len(rows) == 80
    assert len({row["name"] for row in rows}) == 80
    assert (np.diff(submitted(rows)) >= 0).all()
    # The busiest six hours hold all of the dense part, so most of what is drawn is of it.
    assert (np.diff(submitted(rows)) < 900).mean() > 0.8


def test_a_spike_of_more_jobs_than_there_are_keeps_its_bursts() -> None:
    rows = workloads.spike(ROWS, jobs=240)
    assert len(rows) == 240
    assert submitted(rows).max() < workloads.SPIKE_S
    hours = np.histogram(submitted(rows) / 3600, bins=np.arange(0, 7))[0]
    assert hours.max() > 2 * hours.min()


def test_a_sharper_burst_lies_in_its_half_hour() -> None:
    times_h = submitted(workloads.spike(ROWS, burst=100)) / 3600
    assert ((times_h >= 2.5) & (times_h < 3.0)).sum() >= 100


def test_the_same_seed_gives_the_same_spike() -> None:
    assert workloads.spike(ROWS, seed=3) == workloads.spike(ROWS, seed=3)
    assert workloads.spike(ROWS, seed=3) != workloads.spike(ROWS, seed=4)


def test_a_large_model_joins_a_trace_at_its_start() -> None:
    rows = workloads.with_large_model(ROWS, "gpt_pmp")
    assert len(rows) == len(ROWS) + 1
    assert (rows[0]["time"], rows[0]["category"]) == ("0", "adaptive")
    assert workloads.with_large_model(ROWS, "gpt_pmp", 8, 192)[0]["category"] == "rigid"


def test_the_course_of_a_large_model_is_that_of_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        TraceJob("g", 0.0, 1, None, "gpt_pmp", 48, adaptivity=Adaptivity.ADAPTIVE),
        TraceJob("a", 1000.0, 1, None, "cifar10", 128),
    ]
    nodes, source = read_cluster("1x a100:8"), FittedApplications(["a100"])
    outcome = simulation(Workload.of(jobs), nodes, "sia", {}, source, Conditions()).run()
    rates = {4: hybrid.Speed(8, 4, 9.0, 1.0), 2: hybrid.Speed(4, 2, 4.5, 1.0), 1: hybrid.Speed(2, 1, 2.25, 1.0)}
    monkeypatch.setattr(hybrid, "speeds", lambda gpu_type: tuple(rates.values()))
    course = hybrid.course(outcome, 0)
    assert (np.diff(course.time_s) > 0).all()
    gpu_s = float((np.diff(course.time_s) * course.gpus).sum())
    assert gpu_s == pytest.approx(outcome.attained_gpu_s[0])
    assert set(course.active.tolist()) == {1.0, 2.0}
    assert course.time_s[-1] == outcome.finished_s[0]


def test_a_larger_part_of_limited_jobs_holds_the_smaller() -> None:
    few, many = (
        {row["name"] for row in workloads.limited(ROWS, "rigid", part) if row["category"] == "rigid"}
        for part in (0.25, 0.5)
    )
    assert few < many
    assert len(few) == round(len(ROWS) / 4)


EXPERIMENT = Experiment(
    "x",
    (
        Group("philly/sia", (), ("mean_jct_h",), {"mean_jct_h": Said(0.6, 0.1)}, {"mean_jct_h": 0.54}),
        Group("philly/gavel", (), ("mean_jct_h",), {"mean_jct_h": Said(1.2)}),
    ),
    (Claim("mean_jct_h", "philly/sia", "philly/gavel"),),
)


@pytest.mark.parametrize(("sia", "verdict"), [(0.5, True), (1.0, False), (1.5, False)])
def test_an_ordering_holds_where_less_is_less(sia: float, verdict: bool) -> None:
    assert page.verdict(EXPERIMENT.claims[0], sia, 1.0).holds is verdict


def test_what_was_not_run_is_neither_told_nor_judged() -> None:
    values = {"philly/sia": {"mean_jct_h": Value(0.36, 0.05, 4)}}
    text = page.section(EXPERIMENT, values, page.judged(EXPERIMENT, {}))
    assert "| Philly, sia | mean JCT (h) | 0.6 ± 0.1 | 0.54 | 0.36 ± 0.05 | 4 |" in text
    assert "gavel" not in text
    assert page.flat(EXPERIMENT, values, []) == {"x/philly/sia/mean_jct_h": 0.36, "x/philly/sia/traces": 4}


def test_rows_that_are_compared_are_of_the_traces_that_all_have() -> None:
    found: dict[str, dict[str, str]] = {"a": {"1": "a1", "2": "a2"}, "b": {"2": "b2"}, "not run": {}}
    assert page.alike(found) == {"a": {"2": "a2"}, "b": {"2": "b2"}}
    nothing: dict[str, dict[str, str]] = {"not run": {}}
    assert page.alike(nothing) == {}


def test_only_what_lies_between_markers_is_replaced() -> None:
    text = "a\n<!-- x -->\nold\n<!-- end of x -->\nb <!-- y --><!-- end of y -->"
    assert page.between(text, "x", "new") == (
        "a\n<!-- x -->\n\nnew\n\n<!-- end of x -->\nb <!-- y --><!-- end of y -->"
    )
    with pytest.raises(ValueError, match="no <!-- z -->"):
        page.between(text, "z", "")
