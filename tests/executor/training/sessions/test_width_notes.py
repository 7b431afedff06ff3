"""The group with the first trial of a study looks whether activations grow, and its user is told in a sentence."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.core.reports import TrialRow
from coadapt.core.training_config import TrainingConfig
from coadapt.core.trials import Trial, as_variable
from coadapt.executor.protocol.messages import (
    CHECKPOINT_URL,
    HYPERPARAMETERS,
    SHRINK,
    TRIAL_SOURCES,
    TRIALS,
    Join,
    Report,
)
from coadapt.executor.training import api
from coadapt.executor.training.fused.hyperparameters import chosen
from coadapt.executor.training.sessions import width_notes
from coadapt.executor.training.sessions.trials_session import TrialsSession
from coadapt.executor.training.shrunk import trial_steps
from coadapt.executor.training.shrunk import width as widths
from coadapt.executor.training.shrunk.trial_steps import TrialSteps
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.executor.training.state.prepared import Prepared, identify
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tests import support
from tests.support.channels import Executor

RATES = (0.02, 0.01)
DATA = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))


class Net(nn.Module):
    def __init__(self, power: float = 0.5) -> None:
        super().__init__()
        self.power = power
        self.first, self.second, self.third = nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, 64)
        self.last = nn.Linear(64, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        return self.last(self.third(self.second(h * h.shape[1] ** self.power).relu()).relu())


class OnlyThere(Net):
    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("it holds a socket\nand more")


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    widths.forget()
    monkeypatch.setenv(SHRINK, "8")
    monkeypatch.setattr(trial_steps, "BUDGET_S", 60.0)


def prepared(model: nn.Module) -> Prepared:
    torch.manual_seed(0)
    hp = chosen({"lr": 0.1}, [{"lr": rate} for rate in RATES])
    return identify([model, torch.optim.SGD(model.parameters(), lr=hp.lr), DataLoader(DATA, 8)])


def group(monkeypatch: pytest.MonkeyPatch, *numbers: int, url: str = "", **more: Any) -> list[Trial]:
    trials = [Trial(number=n, values={"lr": rate}, **more) for n, rate in zip(numbers, RATES, strict=True)]
    monkeypatch.setenv(TRIALS, as_variable(trials))
    if url:
        monkeypatch.setenv(CHECKPOINT_URL, url)
    return trials


def told(model: nn.Module) -> list[str]:
    return width_notes.end(width_notes.begin(prepared(model)))


def test_layers_that_grow_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    group(monkeypatch, 0, 1)
    (sentence,) = told(Net())
    assert sentence.startswith("activations of layer 'second' grow with width, to the power 0.")
    assert sentence.endswith("; 1 more layer is so")
    assert told(Net(0.0)) == []


@pytest.mark.parametrize(
    ("numbers", "more", "shrink"),
    [((1, 2), {}, "8"), ((0, 1), {"from_job": "a-1"}, "8"), ((0, 1), {}, "1")],
    ids=["another group", "a group that goes on", "a study of the model as it is"],
)
def test_other_groups_do_not_look(
    numbers: tuple[int, ...], more: dict[str, Any], shrink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group(monkeypatch, *numbers, **more)
    monkeypatch.setenv(SHRINK, shrink)
    assert width_notes.begin(prepared(Net())) is None


def test_a_group_that_starts_again_has_looked_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group(monkeypatch, 0, 1, url=str(tmp_path))
    assert isinstance(width_notes.begin(prepared(Net())), TrialSteps)
    CheckpointStore(str(tmp_path)).save({"epoch": 1}, 4)
    assert width_notes.begin(prepared(Net())) is None


def test_a_script_that_builds_its_narrow_model_itself_has_none_to_compare_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group(monkeypatch, 0, 1)
    assert widths.width(64) == 8
    assert width_notes.begin(prepared(Net())) is None


def test_a_model_that_takes_no_step_apart_harms_no_study(monkeypatch: pytest.MonkeyPatch) -> None:
    group(monkeypatch, 0, 1)
    assert told(OnlyThere()) == [
        "activations: nobody knows whether they grow with width, as the model took no step apart: it holds a "
        "socket"
    ]


def test_the_trial_with_the_middle_rate_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    group(monkeypatch, 0, 1)
    found = width_notes.begin(prepared(Net()))
    assert isinstance(found, TrialSteps)
    assert found._optimizer.param_groups[0]["lr"] == 0.01


def test_a_note_comes_with_the_first_report_of_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHRINK, "1")
    trials = group(monkeypatch, 0, 1, url=str(tmp_path))
    executor, parts = Executor(), prepared(Net())
    session = TrialsSession(parts, TrainingConfig(), executor.channel, trials, {}, notes=["they grow"])
    executor.send(Join(1, 0, 1, 1, 0, 1, "", 0))
    session.start()
    for _ in session.epochs(1):
        session.report({"loss": 1.0}, {})
    rows = [row for report in executor.heard(Report) for row in report.trials]
    assert rows[0] == TrialRow(0, (0, 1), notes=("they grow",))
    assert [row.epoch for row in rows[1:]] == [1]


def test_a_script_s_user_is_told_before_its_first_epoch_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = group(monkeypatch, 0, 1, url=str(tmp_path))
    monkeypatch.setenv(SHRINK, "4")
    monkeypatch.setenv(TRIAL_SOURCES, "{}")
    monkeypatch.setenv(HYPERPARAMETERS, json.dumps([trial.values for trial in trials]))
    monkeypatch.setattr(sys, "argv", ["growing_script.py", "--samples", "64"])
    executor = Executor()
    for name, value in (("_channel", executor.channel), ("_session", None)):
        monkeypatch.setattr(api, name, value)
    executor.send(Join(1, 0, 1, 1, 0, 1, "", 0))
    runpy.run_path(str(Path(support.__file__).with_name("growing_script.py")))
    rows = [row for report in executor.heard(Report) for row in report.trials]
    assert [row.epoch for row in rows] == [0, 1]
    assert rows[0].notes[0].startswith("activations of layer 'hidden' grow with width, to the power 0.")
