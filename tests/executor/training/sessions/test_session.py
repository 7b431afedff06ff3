"""What a training script may do, and the one sentence it gets for what it may not."""

from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import Report
from coadapt.core.training_config import CheckpointConfig, Count, TrainingConfig
from coadapt.executor.protocol import messages
from coadapt.executor.protocol.messages import Crashed, Profiled, Ready, Trying
from coadapt.executor.training.state.prepared import identify
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.support.elastic_runs import SCRIPT, run_script
from tests.support.warm_group import WarmGroup

QUIET = TrainingConfig(report_interval_s=0.05, checkpoint=CheckpointConfig(at_epoch_end=False))


def group(tmp_path: Path, *args: str, training: TrainingConfig = QUIET, **env: str) -> WarmGroup:
    return WarmGroup(SCRIPT, tmp_path, training, args=[f"--out={tmp_path}", *args], env=env)


def final(out: Path) -> dict[str, Any]:
    return torch.load(out / "final.pt")


def test_accumulation_amp_clipping_and_schedules_give_the_plain_scripts_model(tmp_path: Path) -> None:
    """Two replicas of two passes each: optimizer, scaler, clipping and scheduler act once per step."""
    args = ["--epochs=3", "--amp", "--clip", "--schedule=step", "--optimizer=adam", "--infinite-at=5"]
    plain = run_script(tmp_path / "plain", *args, "--plain")
    with group(tmp_path, *args) as job:
        members = job.start(2)
        job.join(members, BatchPlan(4, 1))
        finished = job.finish()
    # 7 steps an epoch; the one whose gradient overflowed was skipped on both replicas.
    assert {event.steps for event in finished} == {3 * 7 - 1}
    torch.testing.assert_close(final(tmp_path)["model"], plain["model"], rtol=1e-4, atol=1e-5)
    assert final(tmp_path)["lr"] == pytest.approx(plain["lr"])


def test_a_schedule_made_for_the_initial_batch_size_follows_progress(tmp_path: Path) -> None:
    with group(tmp_path, "--epochs=6", "--schedule=step") as job:
        (a,) = job.start(1)
        job.join([a], BatchPlan(32, 1))
        job.finish()
        progress = a.all(Report)[-1].progress
    assert progress.fraction == 1.0
    assert progress.samples > 6 * 101  # a larger batch needs more passes for the same progress
    gains = progress.progress_samples / 16
    assert 6 * 101 / 16 <= gains + 1e-6 < 7 * 101 / 16
    advances = (1 - final(tmp_path)["lr"][0] / 0.05) * 2 * 7 * 6
    assert advances == pytest.approx(
        gains, abs=progress.samples / 101
    )  # the rest of a pass is a whole step for it


def test_passes_over_the_data_may_be_counted_instead(tmp_path: Path) -> None:
    training = QUIET.model_copy(update={"count": Count.PASSES})
    with group(tmp_path, "--epochs=6", training=training) as job:
        (a,) = job.start(1)
        job.join([a], BatchPlan(32, 1))
        job.finish()
        found = [report.progress for report in a.all(Report)]
    assert found[-1].samples == 6 * 101
    assert [told.fraction for told in found] == pytest.approx([told.samples / (6 * 101) for told in found])
    assert found[-1].progress_samples < 6 * 101


def test_ready_says_what_the_scheduler_needs_to_know(tmp_path: Path) -> None:
    with group(tmp_path) as job:
        (a,) = job.start(1)
        ready = a.wait(Ready)
        assert (ready.initial_batch_size, ready.dataset_size, ready.parameters) == (16, 101, 8 * 16 + 16 + 16 + 1)
        assert (ready.optimizer, ready.adam_type) == ("SGD", False)


def test_profile_mode_measures_growing_batches_and_saves_nothing(tmp_path: Path) -> None:
    limits = TrainingConfig(
        initial_batch_size=4, max_batch_size=64, min_local_batch_size=2, max_local_batch_size=32
    )
    with group(tmp_path, "--epochs=3", training=limits, **{messages.MODE: "profile"}) as job:
        (a,) = job.start(1)
        a.wait(Profiled, lambda event: event.done)
        assert a.exit_code() == 0
        sizes = [event.row.local_bsz for event in a.all(Profiled) if event.row is not None]
        assert {event.asked_samples for event in a.all(Profiled) if event.row is not None} == {3 * 101}
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (2, 32)
    assert not (tmp_path / "checkpoints").exists()


NO_ROOM_FOR_NOISE = """
import torch, coadapt
from coadapt.executor.training.gradients.gradient_noise import ConsecutiveGradients
from torch.utils.data import DataLoader, TensorDataset

push = ConsecutiveGradients.push
def push_if_it_fits(self, bucket, flat, batch_size, scale=None):
    if batch_size > 8:
        raise MemoryError
    push(self, bucket, flat, batch_size, scale)
ConsecutiveGradients.push = push_if_it_fits

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.ones(32, 1)), 4)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(10):
    for (x,) in loader:
        model(x).sum().backward()
        optimizer.step()
"""


def test_a_size_fits_only_where_the_noise_can_be_measured_beside_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(NO_ROOM_FOR_NOISE)
    limits = TrainingConfig(max_batch_size=64, min_local_batch_size=2, max_local_batch_size=16)
    with WarmGroup(script, tmp_path, limits, env={messages.MODE: "profile"}) as job:
        (member,) = job.start(1)
        assert member.wait(Crashed).out_of_memory
        measured = [event.row.local_bsz for event in member.all(Profiled) if event.row is not None]
        assert measured[-1] <= 8 < member.all(Trying)[-1].local_bsz


CRASHES = {
    "import coadapt": "train.py never called coadapt.prepare",
    "raise SystemExit(3)": "train.py exited with status 3",
    "def deep():\n    return {}['key']\ndeep()": "KeyError: 'key'",
    "import this is wrong": "SyntaxError: invalid syntax (train.py, line 1)",
}


@pytest.mark.parametrize("source", CRASHES)
def test_a_script_that_fails_is_reported_in_one_sentence(tmp_path: Path, source: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(source)
    with WarmGroup(script, tmp_path) as job:
        (member,) = job.start(1, ready=False)
        crash = member.wait(Crashed)
        assert crash.summary == CRASHES[source]
        assert "runpy" not in crash.traceback
        assert member.exit_code() == 1


UNFINISHED = """
import sys, torch, coadapt
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.zeros(8, 1)), 4)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(10):
    for (x,) in loader:
        model(x).sum().backward()
        optimizer.step()
    if epoch == 2:
        sys.exit(0)
"""


def test_a_script_that_ends_by_itself_has_succeeded_and_says_how_far_it_was(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(UNFINISHED)
    with WarmGroup(script, tmp_path) as job:
        job.join(job.start(2))
        finished = job.finish()
        assert {event.ended_early for event in finished} == {"epoch 3 of 10"}
        assert {event.steps for event in finished} == {6}


def parts() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    model = nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), 0.1), DataLoader(TensorDataset(torch.zeros(4, 2)), 2)


def test_objects_are_told_apart_by_type_in_any_order() -> None:
    model, optimizer, loader = parts()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    found = identify([loader, schedule, optimizer, model, torch.amp.GradScaler("cpu")])
    assert (found.modules, found.optimizers, found.loader.dataset) == ([model], [optimizer], loader.dataset)
    assert (found.schedulers, len(found.scalers), found.batch_size) == ([schedule], 1, 2)


def test_models_that_no_optimizer_trains_are_companions() -> None:
    model, optimizer, loader = parts()
    average = torch.optim.swa_utils.AveragedModel(model)
    found = identify([average, model, optimizer, loader])
    assert (found.modules, found.companions) == ([model], [average])


def test_parameters_of_no_given_model_are_trained_and_kept_all_the_same() -> None:
    model, _, loader = parts()
    temperature = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([*model.parameters(), temperature], 0.1)
    found = identify([model, optimizer, loader])
    assert found.strays() == [temperature]
    assert found.parameters() == [*model.parameters(), temperature]


def test_what_cannot_be_trained_is_refused_in_one_sentence() -> None:
    model, optimizer, loader = parts()
    other = parts()
    cases: list[tuple[list[Any], str]] = [
        ([optimizer, loader], "0 models given"),
        ([model, optimizer], "0 DataLoaders given"),
        ([model, optimizer, loader, other[2]], "2 DataLoaders given"),
        ([model, loader], "no optimizer given"),
        ([model, torch.optim.LBFGS(model.parameters()), loader], "LBFGS"),
        ([model, optimizer, loader, 3], "argument 4 is a int"),
        ([nn.Embedding(3, 2, sparse=True), optimizer, loader], "sparse=True"),
        ([nn.Linear(2, 1), optimizer, loader], "has no parameter that requires a gradient and is optimized"),
    ]
    for objects, sentence in cases:
        with pytest.raises((ValueError, TypeError), match=sentence) as caught:
            identify(objects)
        assert "\n" not in str(caught.value)
