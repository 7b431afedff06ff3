"""Checkpoints are written when they are due; storage that fails for a moment costs nobody the training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.protocol.messages import CHECKPOINT_URL, Saved
from coadapt.executor.training.sessions import session_checkpoints
from coadapt.executor.training.sessions.session_checkpoints import SessionCheckpoints
from coadapt.executor.training.state.checkpoint_errors import CheckpointError
from coadapt.executor.training.state.training_state import Position


class State:
    """Stands for `TrainingState`."""

    position = Position(steps=7)

    def capture(self) -> dict[str, Any]:
        return {"format": 2, "position": {"steps": 7}}


class Events(list[Any]):
    def send(self, event: Any) -> None:
        self.append(event)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(now_s=1000.0)
    found.monotonic = lambda: found.now_s
    monkeypatch.setattr(session_checkpoints, "time", found)
    monkeypatch.delenv(CHECKPOINT_URL, raising=False)
    return found


def checkpoints(events: Events, **config: Any) -> SessionCheckpoints:
    training = TrainingConfig.model_validate({"checkpoint": config})
    return SessionCheckpoints(training, State(), events)


def test_one_is_due_so_many_minutes_after_the_last_and_told_when_it_is_written(
    clock: SimpleNamespace, tmp_path: Path
) -> None:
    events = Events()
    found = checkpoints(events, url=str(tmp_path), every_minutes=2)
    clock.now_s += 119
    assert not found.due
    clock.now_s += 1
    assert found.due
    path = found.save()
    assert events == [Saved(path, 7)]
    assert not found.due
    assert found.store is not None
    assert found.store.load_newest("cpu") is not None


def test_without_minutes_none_is_due_by_time(clock: SimpleNamespace, tmp_path: Path) -> None:
    found = checkpoints(Events(), url=str(tmp_path), every_minutes=None)
    clock.now_s += 1e9
    assert not found.due


def test_a_job_without_a_folder_writes_none(clock: SimpleNamespace) -> None:
    events = Events()
    found = checkpoints(events)
    clock.now_s += 1e9
    assert (found.due, found.save(), events) == (False, None, [])


def test_the_folder_that_the_cluster_names_goes_before_the_jobs(
    clock: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHECKPOINT_URL, str(tmp_path / "cluster"))
    path = checkpoints(Events(), url=str(tmp_path / "job")).save()
    assert path is not None
    assert str(tmp_path / "cluster") in path


def test_where_storage_fails_training_goes_on_and_the_next_try_is_as_late_as_any(
    clock: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events = Events()
    found = checkpoints(events, url=str(tmp_path), every_minutes=2)

    def fail(*args: Any) -> str:
        raise CheckpointError("no space left")

    assert found.store is not None
    monkeypatch.setattr(found.store, "save", fail)
    clock.now_s += 300
    found.try_to_save()
    assert capsys.readouterr().err == "coadapt: no space left; training goes on\n"
    assert (found.due, events) == (False, [])
    with pytest.raises(CheckpointError):
        found.save()
