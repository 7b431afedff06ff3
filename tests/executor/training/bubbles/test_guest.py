"""A pipeline's process and a group of trials on one GPU: one computes at a time, and the pipeline comes first."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.executor.training.bubbles import guest as guests
from coadapt.executor.training.bubbles import owner as owners
from coadapt.executor.training.bubbles.gate import FOLDER, Gate, GateError
from coadapt.executor.training.bubbles.guest import BubbleGuest, of_environment
from coadapt.executor.training.bubbles.owner import BubbleOwner
from torch import Tensor, nn

PASS_S, BUBBLE_S = 0.004, 0.03
OTHER = """
import sys
from pathlib import Path
from coadapt.executor.training.bubbles.gate import Gate
gate = Gate("gpu", Path(sys.argv[1]))
gate.{what}
gate.take()
print("there", flush=True)
sys.stdin.read()
"""
Spans = list[tuple[float, float]]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start another process that is the owner or the guest, and holds the GPU."""
    started: list[subprocess.Popen[str]] = []

    def start(what: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", OTHER.format(what=what), str(tmp_path)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


class Timed(nn.Linear):
    """A layer that takes down when it computes, forward and backward."""

    def __init__(self, spans: Spans, time_s: float = 0.001) -> None:
        super().__init__(4, 4)
        self.spans, self.time_s = spans, time_s

    def forward(self, x: Tensor) -> Tensor:
        self._compute()
        found = super().forward(x)
        if found.grad_fn is not None:
            found.grad_fn.register_prehook(lambda _: self._compute())
        return found

    def _compute(self) -> None:
        began_s = time.monotonic()
        time.sleep(self.time_s)  # as long as a kernel runs
        self.spans.append((began_s, time.monotonic()))


def iterate(owner: BubbleOwner, spans: Spans) -> None:
    """Run an iteration of two passes, with a bubble between them."""
    with owner.iteration():
        for pause_s in (0.0, BUBBLE_S):
            time.sleep(pause_s)  # as long as a stage waits for another
            with owner.computes():
                began_s = time.monotonic()
                time.sleep(PASS_S)  # as long as a pass runs
                spans.append((began_s, time.monotonic()))


def train(model: nn.Module, steps: int, evaluated: bool = False) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    if evaluated:
        with torch.no_grad():
            model(torch.ones(2, 4))


def test_layers_run_in_bubbles_and_never_beside_a_pass(tmp_path: Path) -> None:
    passes: Spans = []
    layers: Spans = []
    owner = BubbleOwner(Gate("gpu", tmp_path), None)
    guest = BubbleGuest(Gate("gpu", tmp_path), None)
    model = nn.Sequential(Timed(layers), nn.ReLU(), Timed(layers))
    trained = threading.Thread(target=train, args=(model, 10, True))
    trained.start()
    while trained.is_alive():
        iterate(owner, passes)
    iterate(owner, passes)
    guest.leave()
    assert len(layers) == 10 * 4 + 2
    for began_s, ended_s in layers:
        assert not any(start < ended_s and began_s < end for start, end in passes)
    assert owner.lent_s > 0


def test_a_guest_trains_what_it_would_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    train(models[0], 5)
    owner = BubbleOwner(Gate("gpu", tmp_path), None)
    guest = BubbleGuest(Gate("gpu", tmp_path), None)
    trained = threading.Thread(target=train, args=(models[1], 5))
    trained.start()
    while trained.is_alive():
        iterate(owner, [])
    guest.leave()
    for alone, in_bubbles in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(alone, in_bubbles)


def test_a_killed_guest_holds_up_nobody(tmp_path: Path, other: Callable[[str], Any]) -> None:
    gate = Gate("gpu", tmp_path)
    gate.own(None)
    there = other("visit()")
    there.kill()
    there.wait()
    owner = BubbleOwner(gate, None)
    iterate(owner, [])
    assert gate.guest is None


def test_a_guest_that_keeps_the_gpu_is_ended(
    tmp_path: Path,
    other: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(owners, "PATIENCE_S", 0.05)
    gate = Gate("gpu", tmp_path)
    gate.own(None)
    there = other("visit()")
    BubbleOwner(gate, None)  # it takes the GPU
    assert there.wait() == -9
    assert (
        f"the guest on gpu, process {there.pid}, kept the GPU for 0.05 s; it is ended" in capsys.readouterr().err
    )


def test_a_guest_goes_on_when_its_owner_is_gone(tmp_path: Path, other: Callable[[str], Any]) -> None:
    there = other("own(None)")
    guest = BubbleGuest(Gate("gpu", tmp_path), None)
    trained = threading.Thread(target=train, args=(nn.Linear(4, 4), 2))
    trained.start()
    there.kill()
    trained.join(timeout=60)
    guest.leave()
    assert not trained.is_alive()


def test_a_layer_longer_than_all_bubbles_is_refused(tmp_path: Path) -> None:
    owner = BubbleOwner(Gate("gpu", tmp_path), None)
    guest = BubbleGuest(Gate("gpu", tmp_path), None)
    told: list[str] = []

    def trains() -> None:
        try:
            train(Timed([], 2 * BUBBLE_S), 2 * guests.TRIES)
        except GateError as error:
            told.append(str(error))
        finally:
            guest.leave()

    trained = threading.Thread(target=trains)
    trained.start()
    while trained.is_alive():
        iterate(owner, [])
    assert "a pass of a layer (Timed) takes" in told[0]
    assert "no bubble of gpu is longer than" in told[0]


def test_a_gate_has_one_owner_and_one_guest(tmp_path: Path, other: Callable[[str], Any]) -> None:
    there = other("own(None)")
    with pytest.raises(GateError, match=f"gpu has process {there.pid} as its owner; it has one at a time"):
        Gate("gpu", tmp_path).own(None)
    there.kill()
    there.wait()
    gate = Gate("gpu", tmp_path)
    gate.own(None)
    there = other("visit()")
    with pytest.raises(GateError, match=f"gpu has process {there.pid} as its guest; it has one at a time"):
        BubbleGuest(gate, None)


def test_a_guest_needs_an_owner_and_room(tmp_path: Path) -> None:
    gate = Gate("gpu", tmp_path)
    with pytest.raises(GateError, match="nobody lends bubbles of gpu; start the owner first"):
        BubbleGuest(gate, None)
    gate.own(3.0)
    with pytest.raises(
        GateError, match=r"the guest takes 4.5 GiB, and the owner of gpu leaves 3 GiB; train fewer"
    ):
        BubbleGuest(gate, 4.5)
    BubbleGuest(gate, 3.0).leave()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b"])
def test_a_name_that_is_no_file_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(GateError, match="is no name of a gate; letters, digits"):
        Gate(name, tmp_path)


@pytest.mark.parametrize("free_gib", [-1.0, math.nan, math.inf])
def test_memory_that_is_no_number_of_0_or_more_is_refused(tmp_path: Path, free_gib: float) -> None:
    with pytest.raises(GateError, match="0 GiB or more are accepted"):
        Gate("gpu", tmp_path).own(free_gib)


@pytest.mark.parametrize("text", ["much", "-1", "nan"])
def test_the_environment_makes_a_process_a_guest(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.delenv(guests.NAME, raising=False)
    assert of_environment() is None
    monkeypatch.setenv(guests.NAME, "gpu")
    monkeypatch.setenv(guests.MEMORY, text)
    with pytest.raises(GateError, match=f"COADAPT_BUBBLES_GIB is '{text}'; it is a number of GiB"):
        of_environment()


SCRIPT = """
import coadapt, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(2, 1)
loader = DataLoader(TensorDataset(torch.ones(4, 2), torch.ones(4, 1)), 2)
model, optimizer, loader = coadapt.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
"""


def test_a_script_whose_variable_names_no_owner_ends_with_a_sentence() -> None:
    env = {**os.environ, guests.NAME: f"nobody-{os.getpid()}"}
    ended = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True)
    assert ended.returncode != 0
    assert f"nobody lends bubbles of nobody-{os.getpid()}; start the owner first" in ended.stderr
    assert not (FOLDER / f"nobody-{os.getpid()}").exists()
