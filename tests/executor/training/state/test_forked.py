"""A fork goes on from a checkpoint of another job with the options that its own script sets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from coadapt.executor.protocol.messages import JOB_ID, JOB_LIFE
from coadapt.executor.training.gradients.gradient_noise import GradientNoise
from coadapt.executor.training.state.forked import forked, go_on_as_fork
from coadapt.executor.training.state.prepared import identify
from coadapt.executor.training.state.training_state import OtherScriptError, Position, TrainingState
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


def training(
    lr: float = 0.1, momentum: float = 0.9, *, schedule: bool = False, inputs: int = 2, adam: bool = False
) -> TrainingState:
    """Return the state of a script that was just prepared."""
    model = nn.Linear(inputs, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr) if adam else sgd
    parts: list[Any] = [model, optimizer, DataLoader(TensorDataset(torch.zeros(4, inputs)), 2)]
    if schedule:
        parts.append(StepLR(optimizer, step_size=1, gamma=0.5))
    return TrainingState(identify(parts), GradientNoise(), Position())


def stepped(found: TrainingState, times: int = 1) -> dict[str, Any]:
    """Return the state after so many steps of its optimizer and its scheduler."""
    (optimizer,) = found.prepared.optimizers
    for _ in range(times):
        optimizer.zero_grad()
        found.prepared.modules[0](torch.ones(1, found.prepared.modules[0].in_features)).sum().backward()
        optimizer.step()
        for scheduler in found.prepared.schedulers:
            scheduler.step()
    return found.capture()


def rates(found: TrainingState) -> list[float]:
    return [group["lr"] for group in found.prepared.optimizers[0].param_groups]


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JOB_ID, "a-1")


def as_fork(state: dict[str, Any], found: TrainingState) -> None:
    go_on_as_fork(state, found.options, found.prepared)
    found.apply(state, 0)


def test_a_state_says_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    state = training().capture()
    assert not forked(state)
    monkeypatch.setenv(JOB_LIFE, "1")
    assert forked(state), "of the job before it was resumed"
    monkeypatch.delenv(JOB_LIFE)
    monkeypatch.setenv(JOB_ID, "b-2")
    assert forked(state)
    assert not forked({name: value for name, value in state.items() if name != "job"}), "of an earlier version"


def test_a_changed_option_counts_and_is_told_and_what_was_learned_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = stepped(training(lr=0.1, momentum=0.9))
    fork = training(lr=0.01, momentum=0.5)
    as_fork(state, fork)
    (optimizer,) = fork.prepared.optimizers
    assert (rates(fork), optimizer.param_groups[0]["momentum"]) == ([0.01], 0.5)
    assert torch.equal(fork.prepared.modules[0].weight, state["models"][0]["weight"])
    assert all("momentum_buffer" in state for state in optimizer.state.values())
    assert capsys.readouterr().err.splitlines() == [
        "coadapt: goes on with lr 0.01; the checkpoint is of 0.1",
        "coadapt: goes on with momentum 0.5; the checkpoint is of 0.9",
    ]


def test_an_unchanged_script_goes_on_with_what_its_schedule_had_come_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = stepped(training(schedule=True), times=2)
    fork = training(schedule=True)
    as_fork(state, fork)
    assert rates(fork) == [0.025]
    assert capsys.readouterr().err == ""


def test_a_changed_learning_rate_goes_on_where_its_schedule_had_come_to() -> None:
    state = stepped(training(lr=0.1, schedule=True), times=2)
    fork = training(lr=0.4, schedule=True)
    as_fork(state, fork)
    assert rates(fork) == pytest.approx([0.1])
    stepped(fork)
    assert rates(fork) == pytest.approx([0.05])
    assert fork.prepared.schedulers[0].base_lrs == [0.4]


@pytest.mark.parametrize(("by", "over"), [("b-2", False), ("a-1", True)], ids=["a fork", "the job itself"])
def test_a_fork_of_a_training_that_had_ended_may_go_on(
    by: str, over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = training()
    source.position.target_reached = source.position.ended = True
    state = source.capture()
    monkeypatch.setenv(JOB_ID, by)
    fork = training()
    as_fork(state, fork)
    assert (fork.position.target_reached, fork.position.ended) == (over, over)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            {"inputs": 3},
            r"^checkpoint: does not fit the script; weight is 1x2 in the checkpoint and 1x3 in the script$",
        ),
        ({"adam": True}, r"^checkpoint: holds the state of SGD, the script prepares AdamW; another script"),
        ({"schedule": True}, r"^checkpoint: holds 0 schedulers, the script prepares 1; another script"),
    ],
)
def test_a_checkpoint_of_another_script_is_refused_in_one_sentence(other: dict[str, Any], told: str) -> None:
    state = stepped(training())
    with pytest.raises(OtherScriptError, match=told):
        as_fork(state, training(**other))
