"""Scripts as people write them end as they do alone, whatever happens to their job; and what does not is told.

`python -m benchmarks.real_scripts` is the whole table; here are a few of its cells, and the judge itself.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
import torch
from coadapt.benchmarks.real import group
from coadapt.benchmarks.real.compare import Outcome, differences
from coadapt.benchmarks.real.heads import HANG, PARTS, REFUSED, RIGHT, WRONG, head_of, scripts
from coadapt.benchmarks.real.reference import Phase, append_phase
from coadapt.benchmarks.real.trials import ALL_SCENARIOS, ALONE, Trials, Verdict
from coadapt.benchmarks.real_scripts import of_script

CELLS = [
    ("plain_regression", "chain"),
    ("case_accumulate_enumerate", "accumulate"),
    ("case_gan", "lose"),
    ("case_stateful_sampler", "grow"),
    ("token_means", "shrink"),
    ("case_early_stop", "restart"),
    ("lr_by_hand_counter", "move"),
    ("stream_whole", "crash"),
    ("vae_methods", "torchrun"),
    ("drop_last_batchnorm", "grow"),
    ("wgan_clipped", "accumulate"),
    ("sharpness_aware", "accumulate"),
    ("lookahead", "accumulate"),
    ("memory_queue", "lose"),
    ("scaled_by_numpy", "restart"),
    ("replay_buffer", "grow"),
    ("slices_of_a_permutation", "move"),
    ("truncated_bptt", "grow"),
    ("nonlocal_counters", "accumulate"),
    ("masked_language", "restart"),
    ("skip_short", "shrink"),
    ("islice_some", "accumulate"),
    ("zip_with_range", "grow"),
    ("two_phases", "restart"),
    ("turns_of_epochs", "restart"),
    ("turns_of_a_counter", "accumulate"),
    ("rates_of_a_dictionary", "grow"),
    ("sums_begun_anew", "accumulate"),
    ("rates_zipped", "crash"),
    ("tutorial_loop", "accumulate"),
    ("projected_gradients", "shrink"),
    ("labels_popped", "lose"),
    ("generator_enumerated", "accumulate"),
    ("weights_set_late", "restart"),
    ("pretrained_late", "chain"),
    ("global_numpy", "grow"),
    ("counts_by_constants", "move"),
    ("micro_batches_halved", "shrink"),
    ("max_norm", "lose"),
    ("temporal_ensemble", "accumulate"),
    ("loss_normalised", "grow"),
    ("semi_supervised", "grow"),
    ("two_loaders_zipped", "accumulate"),
    ("chunks_of_a_batch", "grow"),
    ("micro_batches", "grow"),
    ("one_class_only", "accumulate"),
    ("both_classes_alike", "grow"),
    ("half_of_the_batch", "grow"),
    ("chunks_divided", "chain"),
    ("uncertainty_weights", "grow"),
]


# The others are run by `python -m benchmarks.real_scripts`, as all cells are.
OFTEN = [cell if at % 2 else pytest.param(*cell, marks=pytest.mark.slow) for at, cell in enumerate(CELLS)]


@pytest.mark.parametrize(("script", "scenario"), OFTEN)
def test_a_job_ends_as_its_script_does_alone(tmp_path: Path, script: str, scenario: str) -> None:
    verdict = Trials(scripts()[script], tmp_path).verdict(scenario)
    assert (verdict.outcome, verdict.problems) == (RIGHT, ())


@pytest.mark.parametrize("scenario", ["grow", "torchrun"])
def test_what_cannot_be_done_is_refused_in_one_sentence(tmp_path: Path, scenario: str) -> None:
    verdict = Trials(scripts()["read_ahead"], tmp_path).verdict(scenario)
    assert verdict.outcome == REFUSED
    assert "asks for its next batch before it has trained on the last one" in verdict.sentence


def test_a_hidden_state_that_goes_on_is_no_matter_of_parts(tmp_path: Path) -> None:
    verdict = Trials(scripts()["truncated_bptt"], tmp_path).verdict("shrink")
    assert verdict.outcome == REFUSED
    assert "the hidden state of GRU goes on from batch to batch" in verdict.sentence


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ALL_SCENARIOS)
@pytest.mark.parametrize("script", scripts())
def test_every_script_does_as_its_head_says(tmp_path: Path, script: str, scenario: str) -> None:
    verdict = Trials(scripts()[script], tmp_path).verdict(scenario)
    assert verdict.as_expected, verdict.problems


# --- the judge --------------------------------------------------------------------------------------------

HONEST = """
import coadapt, os, time, torch
from results import save, saw
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 4)
model = torch.nn.Linear(4, 1)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
managed = "COADAPT_MEMBER" in os.environ
for epoch in coadapt.epochs(3):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        SOMETHING
    coadapt.report(epochs=epoch)
save(model, epoch=epoch)
"""


def trial(folder: Path, something: str) -> Trials:
    script = folder / "script.py"
    script.write_text("# kind: 0 a trial\n" + HONEST.replace("SOMETHING", something))
    (folder / "results.py").symlink_to(Path(scripts()["plain_regression"]).with_name("results.py"))
    return Trials(script, folder)


@pytest.mark.parametrize(
    ("something", "said"),
    [
        ("if managed: saw(a, epoch)", "samples seen too often"),
        ("if managed: model.bias.data.add_(1e-3)", "model.bias"),
        ("epoch += managed", "epochs of epoch 0 is 8, not 0"),
        ("if managed and epoch == 1: raise KeyError('my bug')", "failed after 9 steps: KeyError: 'my bug'"),
        ("if managed and epoch == 1: os._exit(3)", "ended with status 3, unasked"),
        ("if managed and epoch == 1: coadapt.epochs(0).__next__()", "failed after 9 steps: ValueError: epochs: 0"),
    ],
)
def test_what_is_not_as_alone_is_wrong(tmp_path: Path, something: str, said: str) -> None:
    verdict = trial(tmp_path, something).verdict("one")
    assert verdict.outcome == WRONG
    assert said in " ".join(verdict.problems)


def test_errors_of_the_script_itself_are_no_refusals(tmp_path: Path) -> None:
    verdict = trial(tmp_path, "if managed: raise ValueError('one sentence')").verdict("one")
    assert verdict.outcome == WRONG


def test_a_script_that_ends_before_its_events_is_wrong(tmp_path: Path) -> None:
    verdict = trial(tmp_path, "if managed: raise SystemExit(0)").verdict("shrink")
    assert verdict.outcome == WRONG
    assert "before step 11" in verdict.problems[0]


def test_a_script_that_stands_still_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "HANG_S", 3.0)
    verdict = trial(tmp_path, "if managed and epoch == 1: time.sleep(1e6)").verdict("one")
    assert verdict.outcome == HANG
    assert "script.py" in verdict.problems[0]


def test_a_script_that_fails_alone_is_told(tmp_path: Path) -> None:
    verdict = trial(tmp_path, "if not managed: raise KeyError").verdict("one")
    assert verdict.outcome == WRONG
    assert "the script fails alone" in verdict.problems[0]


def test_processes_are_as_fresh_ones(tmp_path: Path) -> None:
    os.environ["LEFT_OVER"] = "1"
    try:
        outcome = trial(tmp_path, "assert os.getcwd() == os.environ['OUT']").run(ALONE)
    finally:
        del os.environ["LEFT_OVER"]
    assert list(outcome.ends) == ["0"]
    assert sum(outcome.seen.values()) == 3 * 64
    assert outcome.reported == {0: {"epochs": 0}, 1: {"epochs": 1}, 2: {"epochs": 2}}


def outcome(seen: dict[str, int], bias: float = 1.0, loss: float = 0.5) -> Outcome:
    end = {"model": {"bias": torch.tensor([bias])}, "buffers": set(), "facts": {"best": [loss, None]}}
    return Outcome({"0": end}, Counter({("0", name): n for name, n in seen.items()}), {0: {"loss": loss}})


@pytest.mark.parametrize(
    ("got", "replays", "expected"),
    [
        (outcome({"a": 1, "b": 1}), False, []),
        (outcome({"a": 1, "b": 1}, bias=1.0 + 5e-6), False, []),
        (outcome({"a": 1, "b": 1}, bias=1.01), False, ["process 0: bias is 0.01 apart"]),
        (outcome({"a": 1, "b": 1}, bias=float("nan")), False, ["process 0: bias is inf apart"]),
        (outcome({"a": 1}), True, ["1 of 2 samples never seen, 1 in epoch 0"]),
        (outcome({"a": 1, "b": 3}), False, ["2 samples seen too often, 2 in epoch 0"]),
        (outcome({"a": 1, "b": 3}), True, []),
        (outcome({"a": 1, "b": 1, "c": 1}), True, ["1 samples seen too often, 1 in epoch 0"]),
        (
            outcome({"a": 1, "b": 1}, loss=0.6),
            False,
            ["process 0: best[0] is 0.6, not 0.5", "loss of epoch 0 is 0.6, not 0.5"],
        ),
    ],
)
def test_differences_are_told(got: Outcome, replays: bool, expected: list[str]) -> None:
    alone = outcome({"a": 1, "b": 1})
    told = differences(alone, got, seen=alone.seen, parts=PARTS, replays=replays, tolerance=1e-4)
    assert told == expected


def test_replicas_are_alike_even_where_nobody_says_how() -> None:
    got = outcome({"a": 1})
    got.ends["1"] = outcome({}, bias=1.5).ends["0"]
    told = differences(outcome({"a": 1}), got, seen=got.seen, parts=["seen"], replays=False, tolerance=1e-4)
    assert told == ["process 1: bias is 0.5 apart, from process 0"]


def test_steps_that_were_lost_are_no_part_of_a_reference() -> None:
    phases: list[Phase] = []
    for step, replicas in ((0, 1), (5, 2), (9, 3), (8, 1)):
        append_phase(phases, Phase(step, replicas, 1))
    assert [(phase.step, phase.replicas) for phase in phases] == [(0, 1), (5, 2), (8, 1)]


def test_heads_name_scenarios_and_parts_that_there_are() -> None:
    for path in scripts().values():
        head = head_of(path)
        assert {*head.expected, *head.left_out} <= {*ALL_SCENARIOS, "all"}, path
        assert set().union(*head.left_out.values()) <= set(PARTS), path
        assert head.reference in ("alone", "one", "ddp"), path


def test_a_head_without_a_reason_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    for line in ("# expect: refused grow", "# kind: 3\n# leave out: model of all", "import torch"):
        script.write_text(line)
        with pytest.raises(ValueError, match=r"script\.py"):
            head_of(script)


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        ([RIGHT, RIGHT], RIGHT),
        ([RIGHT, REFUSED], REFUSED),
        ([REFUSED, WRONG, RIGHT], WRONG),
        ([WRONG, HANG], HANG),
    ],
)
def test_a_script_is_as_good_as_its_worst_scenario(outcomes: list[str], worst: str) -> None:
    assert of_script(Verdict("script", "one", outcome, RIGHT) for outcome in outcomes) == worst
