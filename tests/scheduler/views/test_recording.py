"""What ran live can be replayed: a job's trace says what it asked for, how fast it was and how long it took."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.deadline import DeadlineSpec
from coadapt.core.job import JobSpec, JobState, Phase
from coadapt.core.reports import StepRow
from coadapt.core.rewards import Rewards
from coadapt.core.usage import Mean, Usage, UsageOn
from coadapt.estimators.affinity import pair_speeds
from coadapt.estimators.affinity.uses import row_of
from coadapt.estimators.goodput import best_batch
from coadapt.estimators.measurements import Measurements
from coadapt.estimators.throughput import step_time_s
from coadapt.executor.protocol.messages import Ready
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.scheduler.views.recording import trace_lines
from coadapt.simulator.jobs.recorded_application import application_of
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.recorded import RecordedProfile, RecordedUse

ROWS = [StepRow(1, 1, size, 0, 0.05 + size / 1000, 0.0, 20) for size in (8, 16, 32, 64)]
MEASURED = replace(
    Measurements().with_info(Ready("net", 32, 1000, 4096, "SGD", False).info).with_rows("t4", ROWS),
    grad_sqr=1.0, grad_var=640.0,
)  # fmt: skip
SPEC = JobSpec.model_validate(
    {
        "name": "digits",
        "script": "train.py",
        "resources": {"max_gpus": 4},
        "training": {"initial_batch_size": 32, "max_batch_size": 256},
    }
)


def record(number: int, submitted_s: float, phase: Phase = Phase.SUCCEEDED) -> JobRecord:
    state = JobState(
        phase, submitted_s=submitted_s, queued_s=submitted_s + 12.5, started_s=submitted_s + 20, finished_s=9999.0
    )
    return JobRecord(
        id=f"digits-{number}", number=number, spec=SPEC, state=state, measurements=MEASURED,
        report={"progress_samples": 64_000.0}, pauses=2, lost_s=3.0,
    )  # fmt: skip


def recorded(jobs: list[JobRecord], held: list[UsageInterval] | None = None) -> list[str]:
    return trace_lines(jobs, held or [], 30.0)


def test_a_recorded_job_is_read_as_it_was(tmp_path: Path) -> None:
    lines = recorded([record(2, 1100.0), record(1, 1000.0), record(3, 1200.0, Phase.FAILED)])
    assert [json.loads(line)["id"] for line in lines] == ["digits-1", "digits-2"]
    path = tmp_path / "day.jsonl"
    path.write_text("\n".join(lines))
    workload = read_trace(path)
    assert workload.submit_s.tolist() == [0.0, 100.0]
    assert workload.ready_after_s.tolist() == [12.5, 12.5]
    assert workload.max_gpus.tolist() == [4, 4]
    model = workload.models[0]
    assert model is not None
    application = application_of("digits-1", model, ["t4", "a100"])
    assert application.restart_s == 1.5
    assert application.statistics.boundaries.tolist() == [2000.0]  # steps at the initial batch size
    assert application.statistics.noise_scale(32, 0) == pytest.approx(640.0)
    known = MEASURED.job_model(SPEC.training, {"*": 1})
    assert known is not None
    expected = step_time_s(known.throughput["t4"].params, 1, 2, 32)
    assert application.step_times["t4"].at((2,), 32).step_s == pytest.approx(float(expected))
    with pytest.raises(ValueError, match="digits-1 was measured on t4, and on no GPU type of the cluster"):
        application_of("digits-1", model, ["a100"])


def test_a_recorded_job_is_replayed_in_its_pool(tmp_path: Path) -> None:
    of_lab = replace(record(1, 1000.0), spec=SPEC.model_copy(update={"pool": "lab"}))
    path = tmp_path / "day.jsonl"
    path.write_text("\n".join(recorded([of_lab, record(2, 1100.0)])))
    assert read_trace(path).virtual_clusters == ("lab", "")


def test_what_a_job_took_besides_its_steps_is_recorded(tmp_path: Path) -> None:
    job = replace(record(1, 1000.0), starts=2, starting_s=16.0, moves=4, moving_s=1.0)
    known = MEASURED.job_model(SPEC.training, {"*": 1})
    assert known is not None
    best = best_batch(known, "t4", 1, 2)
    assert best is not None
    trained_s = 2 * 64_000.0 / best.goodput  # twice as long as the model says
    held = [
        UsageInterval(job.id, 1001.0, 1012.0, "t4", 1, 1, phase="profiling"),
        UsageInterval(job.id, 1020.0, 1020.0 + trained_s, "t4", 2, 1),
        UsageInterval("another-9", 1020.0, 5000.0, "t4", 2, 1),
    ]
    path = tmp_path / "day.jsonl"
    path.write_text("\n".join(recorded([job], held)))
    workload = read_trace(path)
    assert workload.profiles == ((RecordedProfile("t4", 11.0, 1.0),),)
    model = workload.models[0]
    assert model is not None
    assert (model.start_s, model.pause_s, model.restart_s, model.assumed_restart_s) == (8.0, 0.25, 1.5, 8.0)
    assert model.slowdown == pytest.approx(2.0)


PLAIN = JobSpec.model_validate({"name": "sweep", "command": ["./run"], "resources": {"gpus": 2}})


def seen(gpu_util: float) -> UsageOn:
    return UsageOn(Usage(100.0, Mean.of(gpu_util, 100.0), gib=Mean.of(3.0, 100.0)))


def plain(number: int, **more: Any) -> JobRecord:
    return replace(
        record(number, 1000.0),
        spec=PLAIN,
        owner="ann",
        measurements=None,
        report={},
        starts=1,
        starting_s=5.0,
        **more,
    )


def test_a_program_whose_steps_nobody_counts_is_replayed_by_its_time(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    held = [UsageInterval("digits-1", 1020.0, 1620.0, "t4", 2, 1)]
    path.write_text("\n".join(recorded([plain(1, usage={"t4": seen(0.4)})], held)))
    workload = read_trace(path)
    assert (workload.names, workload.users, workload.gpus.tolist()) == (("sweep",), ("ann",), [2])
    assert workload.duration_s.tolist() == [600.0]
    assert workload.restart_s.tolist() == [5.0]
    assert workload.uses == (RecordedUse(gpu_util=0.4, memory_gib=3.0),)
    model = workload.models[0]
    assert model is not None
    application = application_of("digits-1", model, ["t4", "a100"])
    steps = application.statistics.boundaries[-1]
    assert steps * application.step_times["t4"].at((2,), 1).step_s == pytest.approx(595.0), "and 5 s to start"


def test_time_beside_a_partner_counts_by_the_speed_that_it_leaves() -> None:
    held = [
        UsageInterval("digits-1", 0.0, 100.0, "t4", 2, 1),
        UsageInterval("digits-1", 100.0, 300.0, "t4", 2, 1, share=0.5),
        UsageInterval("digits-2", 100.0, 300.0, "t4", 2, 1, share=0.5),
        UsageInterval("digits-3", 290.0, 900.0, "t4", 2, 1, share=0.5),  # it was there for a moment only
    ]
    uses = {1: seen(0.6), 2: seen(0.5), 3: seen(1.0)}
    rows = [json.loads(line) for line in recorded([plain(n, usage={"t4": uses[n]}) for n in uses], held)]
    a, b = (row_of(uses[n].mean)[None] for n in (1, 2))
    first, second = (float(pair_speeds.default().of(*pair)[0]) for pair in ((a, b), (b, a)))
    assert first < 1
    assert rows[0]["duration_s"] == pytest.approx(100 + 200 * first, abs=0.001)
    assert rows[1]["duration_s"] == pytest.approx(200 * second, abs=0.001)


def test_each_further_start_of_a_job_is_no_work() -> None:
    held = [UsageInterval("digits-1", at, at + 100.0, "t4", 2, 1) for at in (0.0, 200.0)]
    (row,) = map(json.loads, recorded([replace(plain(1), starts=2, starting_s=10.0)], held))
    assert row["duration_s"] == 195.0


def test_a_program_that_had_no_gpus_is_left_out() -> None:
    assert recorded([plain(1)]) == []


def test_a_recorded_job_keeps_its_deadline(tmp_path: Path) -> None:
    due = record(1, 1000.0)
    due = replace(due, spec=due.spec.model_copy(update={"deadline": DeadlineSpec(within=3600.0, soft=True)}))
    path = tmp_path / "day.jsonl"
    path.write_text("\n".join(recorded([due, record(2, 1100.0)])))
    assert read_trace(path).rewards == (Rewards.soft(3600.0), None)
