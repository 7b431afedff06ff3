"""Trials of a job train as one, and each as it would alone, whoever leaves, joins or is killed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.core.reports import TrialRow
from coadapt.core.training_config import TrainingConfig
from coadapt.core.trials import Trial
from coadapt.executor.protocol.messages import (
    CHECKPOINT_URL,
    KEPT_EPOCHS,
    UNTIL_EPOCH,
    Join,
    Joined,
    Keep,
    Leave,
    Ready,
    Report,
    Saved,
    Stop,
)
from coadapt.executor.training.fused.errors import CannotFuse
from coadapt.executor.training.fused.hyperparameters import chosen
from coadapt.executor.training.sessions.membership import Leaving
from coadapt.executor.training.sessions.trials_session import TrialsSession
from coadapt.executor.training.state.prepared import identify
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.support.channels import Executor

RATES = (0.05, 0.02, 0.005)
EPOCHS = 4


class Script:
    """A small net with dropout on data that are shuffled; it trains by the rates that it is given."""

    def __init__(self, rates: Sequence[float]) -> None:
        torch.manual_seed(0)
        hp = chosen({"lr": 0.1}, [{"lr": rate} for rate in rates])
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=hp.lr, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        inputs = torch.randn(24, 4)
        self.loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), 8, shuffle=True)
        self.losses: list[Any] = []

    def train(self, epochs: Any, report: Any = None, between: Any = None) -> None:
        for epoch in epochs:
            total = 0.0
            for step, (x, y) in enumerate(self.loader):
                if between is not None:
                    between(epoch, step)
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            self.schedule.step()
            if report is not None:
                report({"loss": total / len(self.loader)}, {})
            self.losses.append(total / len(self.loader))


class Group(Executor):
    """A session of trials, by number and rate, and its executor's end of the channel."""

    def __init__(
        self,
        rates: Mapping[int, float],
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        sources: Mapping[int, tuple[str, int]] | None = None,
        from_folders: Mapping[str, Path] | None = None,
        from_epoch: int | None = None,
    ) -> None:
        super().__init__()
        monkeypatch.setenv(CHECKPOINT_URL, str(folder))
        self.script = script = Script([*rates.values()])
        prepared = identify([script.model, script.optimizer, script.loader, script.schedule])
        begun = sources or {}
        trials = [
            Trial(number=n, values={"lr": rate}, **_source(begun.get(n), from_epoch)) for n, rate in rates.items()
        ]
        urls = {job: str(one) for job, one in (from_folders or {}).items()}
        self.session = TrialsSession(prepared, TrainingConfig(), self.channel, trials, urls)
        self.send(Join(1, 0, 1, 1, 0, 1, "", 0))
        self.session.start()

    def train(self, epochs: int = EPOCHS, between: Any = None) -> Group:
        self.script.train(self.session.epochs(epochs), self.session.report, between)
        return self

    def rows(self) -> list[TrialRow]:
        return [row for report in self.heard(Report) for row in report.trials]

    def losses(self) -> dict[int, list[float]]:
        """Return the losses of each trial, by epoch; what is told twice counts as it was told last."""
        found: dict[int, dict[int, float]] = {}
        for row in self.rows():
            for number, loss in zip(row.trials, row.metrics.get("loss", ()), strict=False):
                found.setdefault(number, {})[row.epoch] = loss
        return {number: [own[epoch] for epoch in sorted(own)] for number, own in found.items()}


def _source(of: tuple[str, int] | None, epoch: int | None) -> dict[str, Any]:
    return {} if of is None else {"from_job": of[0], "from_trial": of[1], "from_epoch": epoch}


@pytest.fixture(scope="module")
def alone() -> dict[float, list[float]]:
    """Return what each rate gives by itself: its losses by epoch."""
    found = {}
    for rate in RATES:
        script = Script([rate])
        script.train(range(EPOCHS))
        found[rate] = script.losses
    return found


def test_a_group_reports_what_each_trial_would_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[float, list[float]]
) -> None:
    group = Group(dict(enumerate(RATES)), tmp_path, monkeypatch).train()
    assert group.heard(Joined)[0].source == "fresh"
    for number, rate in enumerate(RATES):
        assert group.losses()[number] == pytest.approx(alone[rate], rel=1e-4)
    assert len(group.heard(Saved)) == EPOCHS
    assert group.session.done


def test_groups_of_another_size_do_not_share_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Group({0: 0.1, 1: 0.2}, tmp_path / "a", monkeypatch)
    other = Group({0: 0.1, 1: 0.2, 2: 0.3}, tmp_path / "b", monkeypatch)
    assert one.heard(Ready)[0].fingerprint != other.heard(Ready)[0].fingerprint


@pytest.mark.parametrize("command", [Stop(), Leave(2, save=True)])
def test_a_group_that_left_within_an_epoch_does_it_again_and_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[float, list[float]], command: Any
) -> None:
    first = Group(dict(enumerate(RATES)), tmp_path, monkeypatch)

    def stop(epoch: int, step: int) -> None:
        if (epoch, step) == (2, 1):
            first.send(command)

    with pytest.raises(Leaving) as leaving:
        first.train(between=stop)
    assert leaving.value.saved is not None
    second = Group(dict(enumerate(RATES)), tmp_path, monkeypatch).train()
    assert second.heard(Joined)[0] == Joined(1, 6, "checkpoint")
    assert [row.epoch for row in second.rows()] == [3, 4]
    for number, rate in enumerate(RATES):
        assert second.losses()[number] == pytest.approx(alone[rate][2:], rel=1e-4)


def test_a_trial_is_dropped_in_place_and_the_others_go_on_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[float, list[float]]
) -> None:
    group = Group(dict(enumerate(RATES)), tmp_path, monkeypatch)
    group.train(between=lambda epoch, step: group.send(Keep((0, 2))) if (epoch, step) == (1, 0) else None)
    assert group.losses()[1] == pytest.approx(alone[RATES[1]][:1], rel=1e-4), "it left within its second epoch"
    for number in (0, 2):
        assert group.losses()[number] == pytest.approx(alone[RATES[number]], rel=1e-4)
    assert [(row.trials, row.left) for row in group.rows()][-1] == ((0, 2), ())


def test_a_group_that_comes_back_with_an_earlier_checkpoint_trains_those_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[float, list[float]]
) -> None:
    Group(dict(enumerate(RATES)), tmp_path, monkeypatch).train(2)
    again = Group({0: RATES[0], 2: RATES[2]}, tmp_path, monkeypatch).train()
    for number in (0, 2):
        assert again.losses()[number] == pytest.approx(alone[RATES[number]][2:], rel=1e-4)


def test_a_trial_by_itself_is_resumed_and_goes_on_from_a_group_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[float, list[float]]
) -> None:
    Group({0: RATES[0], 1: RATES[1]}, tmp_path / "a", monkeypatch).train(1)
    by_itself = Group({1: RATES[1]}, tmp_path / "b", monkeypatch, {1: ("a", 1)}, {"a": tmp_path / "a"}).train(2)
    assert by_itself.losses()[1] == pytest.approx(alone[RATES[1]][1:2], rel=1e-4)
    folders = {name: tmp_path / name for name in "ab"}
    Group({0: RATES[0], 2: RATES[1]}, tmp_path / "c", monkeypatch, {0: ("a", 0), 2: ("a", 1)}, folders).train(2)
    folders["c"] = tmp_path / "c"
    back = Group(
        {0: RATES[0], 1: RATES[1]}, tmp_path / "d", monkeypatch, {0: ("c", 0), 1: ("b", 1)}, folders
    ).train()
    for number in (0, 1):
        assert back.losses()[number] == pytest.approx(alone[RATES[number]][2:], rel=1e-4)


def test_trials_that_left_with_their_states_go_on_elsewhere_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[float, list[float]]
) -> None:
    group = Group(dict(enumerate(RATES)), tmp_path / "a", monkeypatch)
    group.train(between=lambda epoch, step: group.send(Keep((0,), True)) if (epoch, step) == (1, 0) else None)
    assert TrialRow(2, (0,), {}, (1, 2)) in group.rows()
    other = Group(
        {1: RATES[1], 7: RATES[2]},
        tmp_path / "b",
        monkeypatch,
        {1: ("a-1", 1), 7: ("a-1", 2)},
        {"a-1": tmp_path / "a"},
    ).train()
    assert other.heard(Joined)[0].source == "checkpoint"
    assert other.losses()[1] == pytest.approx(alone[RATES[1]][2:], rel=1e-4)
    assert other.losses()[7] == pytest.approx(alone[RATES[2]][2:], rel=1e-4)


def test_groups_that_have_thinned_train_on_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[float, list[float]]
) -> None:
    for name, numbers in (("a", (0, 1)), ("b", (2, 3))):
        rates = {n: RATES[n % 3] for n in numbers}
        Group(rates, tmp_path / name, monkeypatch).train(2)
    merged = Group(
        {1: RATES[1], 2: RATES[2]},
        tmp_path / "c",
        monkeypatch,
        {1: ("a", 1), 2: ("b", 2)},
        {name: tmp_path / name for name in "ab"},
    ).train()
    for number in (1, 2):
        assert merged.losses()[number] == pytest.approx(alone[RATES[number]][2:], rel=1e-4)


def test_a_trial_goes_on_from_an_epoch_that_was_kept_however_far_its_group_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[float, list[float]]
) -> None:
    monkeypatch.setenv(KEPT_EPOCHS, "1,3")
    Group(dict(enumerate(RATES)), tmp_path / "a", monkeypatch).train()
    again = Group(
        {2: RATES[2]}, tmp_path / "b", monkeypatch, {2: ("a", 2)}, {"a": tmp_path / "a"}, from_epoch=1
    ).train()
    assert again.losses()[2] == pytest.approx(alone[RATES[2]][1:], rel=1e-4)


def test_a_group_ends_after_the_epoch_that_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UNTIL_EPOCH, "2")
    group = Group({0: 0.1, 1: 0.2}, tmp_path, monkeypatch).train()
    assert [row.epoch for row in group.rows()] == [1, 2]
    assert group.session.done


def test_trials_of_different_epochs_do_not_train_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, epochs in (("a", 1), ("b", 2)):
        Group({0: 0.1, 1: 0.2}, tmp_path / name, monkeypatch).train(epochs)
    with pytest.raises(CannotFuse, match=r"after 1 and 2 epochs"):
        Group(
            {0: 0.1, 1: 0.2},
            tmp_path / "c",
            monkeypatch,
            {0: ("a", 0), 1: ("b", 1)},
            {name: tmp_path / name for name in "ab"},
        )


def test_a_script_that_counts_steps_is_told_to_count_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group({0: 0.1, 1: 0.2}, tmp_path, monkeypatch)
    with pytest.raises(CannotFuse, match="steps"):
        next(group.session.steps(3))
