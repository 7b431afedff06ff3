"""Metrics go on to trackers without a step that waits, and a tracker that fails ends nothing."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlflow
import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.job import JobSpec
from coadapt.executor.executor_job import ExecutorJob
from coadapt.executor.protocol.messages import JOB_ID, STATUS_FILE, TRACKERS
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.tracking.forwarding import MOST_WAITING, Forwarding, Trackers
from coadapt.executor.training.tracking.values import Values
from coadapt.executor.worker_environment import tracking
from wandb.proto import wandb_internal_pb2

from tests.support.ranks import on_ranks
from tests.support.sessions import Managed, Script

REPORTS = """
import coadapt
for step in range(1, 31):
    coadapt.report(step=step, loss=1.0 / step, bad=float("nan"))
"""


@pytest.fixture
def mlflow_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mlflow.MlflowClient:
    uri = f"sqlite:///{tmp_path / 'mlflow.sqlite'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "digits")
    monkeypatch.setenv(JOB_ID, "a-1")
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return mlflow.MlflowClient(uri)


def runs(client: mlflow.MlflowClient) -> list[Any]:
    experiment = client.get_experiment_by_name("digits")
    return list(client.search_runs([experiment.experiment_id]))


def test_a_job_that_goes_on_in_another_process_is_one_run_of_mlflow(
    mlflow_at: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRACKERS, "mlflow")
    for first in (0, 10):
        monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
        trackers = Trackers.of_environment()
        trackers.begin()
        (run,) = runs(mlflow_at)
        assert os.environ["MLFLOW_RUN_ID"] == run.info.run_id, "a script's own run is the same"
        assert run.info.status == "RUNNING"
        for step in range(first, first + 10):
            trackers.tell({"loss": 1.0 / (step + 1), "a metric (%)": 5, "nan": float("nan")}, step)
        trackers.end()
    (run,) = runs(mlflow_at)
    assert (run.info.run_name, run.info.status) == ("a-1", "FINISHED")
    assert run.data.metrics == {"loss": pytest.approx(1 / 20), "a metric ___": 5.0}
    assert [point.step for point in mlflow_at.get_metric_history(run.info.run_id, "loss")] == list(range(20))


def test_another_job_is_another_run_and_a_failure_is_told(
    mlflow_at: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRACKERS, "mlflow")
    for job_id, good in (("a-1", True), ("b-2", False)):
        monkeypatch.setenv(JOB_ID, job_id)
        trackers = Trackers.of_environment()
        trackers.tell({"loss": 1.0}, 1)
        trackers.end(good)
    assert {run.info.run_name: run.info.status for run in runs(mlflow_at)} == {"a-1": "FINISHED", "b-2": "FAILED"}


def test_each_epoch_of_a_job_that_trains_goes_on_from_replica_0_alone(
    mlflow_at: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRACKERS, "mlflow")

    def act(group: Group) -> None:
        trackers = Trackers.of_environment()
        managed = Managed(Script(samples=16), trackers=trackers, max_batch_size=64).started(BatchPlan(4, 1, 4))
        session = managed.session
        for epoch in session.epochs(3):
            for batch in managed.script.loader:
                managed.script.train(batch)
            session.report({"accuracy": epoch / 10}, {})
        session.finish()
        trackers.end()

    on_ranks(1, act)
    (run,) = runs(mlflow_at)
    history = mlflow_at.get_metric_history(run.info.run_id, "accuracy")
    assert [point.value for point in history] == [0.0, 0.1, 0.2]
    assert [point.step for point in history] == [4, 8, 12]


def test_a_program_without_prepare_hands_on_what_it_reports_to_wandb_and_is_one_run(tmp_path: Path) -> None:
    script, env = tmp_path / "train.py", dict(os.environ)
    script.write_text(REPORTS)
    env |= {JOB_ID: "a-1", STATUS_FILE: str(tmp_path / "status"), **tracking("a-1", False, ["wandb"])}
    env |= {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true", "RANK": "0"}
    for _ in range(2):
        done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    files = sorted((tmp_path / "wandb").glob("offline-run-*/run-a-1.wandb"))
    assert len(files) == 2, "each process has written its part of the run a-1"
    for file in files:
        rows = history_of(file)
        assert [int(float(row["steps"])) for row in rows] == list(range(1, 31))
        assert float(rows[-1]["loss"]) == pytest.approx(1 / 30)
        assert "bad" not in rows[0]
    assert len((tmp_path / "status").read_text().splitlines()) == 60, "the scheduler is told as well"


def history_of(file: Path) -> list[dict[str, str]]:
    """Return the rows that W&B keeps of a run that is offline, by its own format: a log of LevelDB's."""
    data, at, rows = file.read_bytes(), 7, list[dict[str, str]]()
    while at + 7 <= len(data):
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        assert kind == 1, "a record in one piece"
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data[at + 7 : at + 7 + size])
        at += 7 + size
        if record.HasField("history"):
            found = {".".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
            rows.append(found)
    return rows


def test_other_ranks_and_profile_runs_tell_no_tracker() -> None:
    assert TRACKERS not in tracking("a-1", True, ["wandb"])
    assert TRACKERS not in tracking("a-1", False)
    assert tracking("a-1", False, ["mlflow", "wandb"])[TRACKERS] == "mlflow,wandb"
    spec = JobSpec(name="a", script="train.py", trackers=["mlflow"])
    assert ExecutorJob("a-1", "train.py", trackers=tuple(spec.trackers)).trackers == ("mlflow",)


class Slow:
    """A tracker that takes nothing until it is let, and then counts."""

    def __init__(self) -> None:
        self.let, self.got = threading.Event(), list[Values]()

    def begin(self) -> None:
        self.let.wait(60)

    def log(self, values: Sequence[Values]) -> None:
        self.got += values

    def end(self, good: bool) -> None:
        """Nothing is kept open."""


def test_a_tracker_that_does_not_answer_keeps_nobody_waiting_and_the_newest_values_stay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Slow()
    forwarding = Forwarding("slow", run)
    for step in range(3 * MOST_WAITING):
        forwarding.tell({"loss": 1.0}, step)
    run.let.set()
    forwarding.end(good=True, wait_s=30.0)
    steps = [values.step for values in run.got]
    assert steps[-1] == 3 * MOST_WAITING - 1
    assert steps == list(range(steps[0], steps[-1] + 1))
    assert len(steps) <= MOST_WAITING
    assert "slow takes no metrics: was too slow for" in capsys.readouterr().err


class Broken(Slow):
    """A tracker that raises. `where`: at which call."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def begin(self) -> None:
        if self._where == "begin":
            raise RuntimeError("no login\nsecond line")

    def log(self, values: Sequence[Values]) -> None:
        raise ConnectionError("the server is away")

    def end(self, good: bool) -> None:
        raise SystemExit(1)


@pytest.mark.parametrize(
    ("where", "told"), [("begin", "RuntimeError: no login"), ("log", "ConnectionError: the server is away")]
)
def test_a_tracker_that_fails_is_a_warning_once(where: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    trackers = Trackers([Forwarding("mlflow", Broken(where))])
    trackers.begin()
    for step in range(100):
        trackers.tell({"loss": 1.0}, step)
    trackers.end()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"coadapt: mlflow takes no metrics: {told}; training goes on"
    assert len([line for line in lines if told in line]) == 1


def test_a_package_that_is_missing_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setenv(TRACKERS, "wandb,unknown")
    monkeypatch.setenv(JOB_ID, "a-1")
    trackers = Trackers.of_environment()
    trackers.tell({"loss": 1.0}, 1)
    trackers.end()
    assert "coadapt: wandb takes no metrics: ModuleNotFoundError" in capsys.readouterr().err
