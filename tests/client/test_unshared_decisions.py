"""A script whose replicas would decide by their own samples when training ends is told before it is run."""

from pathlib import Path

import pytest
from coadapt.client.unshared_decisions import unshared_decisions

HEAD = """\
import coadapt
train = DataLoader(data)
held_out = DataLoader(other)
model, optimizer, train = coadapt.prepare(model, optimizer, train)
"""
MEAN = """\
    total = 0.0
    for i, (x, y) in enumerate(train):
        loss = criterion(model(x), y)
        total += loss.item()
    mean = total / len(train)
"""


def found(folder: Path, body: str) -> list[tuple[int, str]]:
    """Return what is found. Lines are counted from the first one of the body."""
    (folder / "train.py").write_text(HEAD + body)
    first = HEAD.count("\n")
    return [(decision.line - first, decision.name) for decision in unshared_decisions(folder / "train.py")]


EPOCHS = "for epoch in coadapt.epochs(9):\n"
UNSHARED = {
    "the mean loss": EPOCHS + MEAN + "    if mean < 0.1:\n        break\n",
    "a patience": EPOCHS + MEAN + "    if mean < best:\n        best = mean\n    else:\n        bad += 1\n"
    "    if bad > 3:\n        break\n",
    "a history": EPOCHS
    + MEAN
    + "    history.append(mean)\n    if len(history) > 1 and history[-2] < history[-1]:\n"
    "        sys.exit(0)\n",
    "a function": EPOCHS + "    mean = train_epoch(model, train)\n    if mean < 0.1:\n        break\n",
    "a batch": EPOCHS + "    for x, y in train:\n        loss = criterion(model(x), y)\n        if loss < 0.1:\n"
    "            break\n",
    "steps": "batches = iter(train)\nfor step in coadapt.steps(9):\n    x, y = next(batches)\n"
    "    if criterion(model(x), y) < 0.1:\n        break\n",
    "a generator": EPOCHS
    + "    mean = np.mean([model(x).item() for x in train])\n    if mean < 0.1:\n        break\n",
    "a list": EPOCHS + "    losses = [learn(x) for x in train]\n    if losses[-1] < 0.1:\n        break\n",
}


@pytest.mark.parametrize("body", UNSHARED.values(), ids=UNSHARED)
def test_a_decision_by_a_replicas_own_samples_is_found(tmp_path: Path, body: str) -> None:
    assert len(found(tmp_path, body)) == 1


SHARED = {
    "combined": EPOCHS + MEAN + "    mean = coadapt.combine(mean)\n    if mean < 0.1:\n        break\n",
    "combined in place": EPOCHS + MEAN + "    if coadapt.combine(mean) < 0.1:\n        break\n",
    "combined by its function": "def train_epoch(model, data):\n    return coadapt.combine(0.0)\n"
    + EPOCHS
    + "    mean = train_epoch(model, train)\n    if mean < 0.1:\n        break\n",
    "validation": EPOCHS
    + MEAN
    + "    total = 0.0\n    for x, y in held_out:\n        loss = criterion(model(x), y)\n"
    "        total += loss.item()\n    if total < 0.1:\n        break\n",
    "validation with the names of a batch": EPOCHS
    + MEAN
    + "    total = sum(criterion(model(x), y).item() for x, y in held_out)\n    if total < 0.1:\n        break\n",
    "validation in a function": EPOCHS + "    if evaluate(model, held_out) > 0.9:\n        break\n",
    "numbers of batches": EPOCHS
    + "    for i, (x, y) in enumerate(train):\n        step += 1\n        if step > 9:\n"
    "            break\n",
    "a loss that is none": EPOCHS + MEAN + "    if not math.isfinite(mean):\n        sys.exit(1)\n",
    "what is only kept": EPOCHS
    + MEAN
    + "    if mean < best:\n        best = mean\n        torch.save(model, 'best.pt')\n",
    "a loop within": EPOCHS + MEAN + "    if mean < best:\n        for name in names:\n            break\n",
}


@pytest.mark.parametrize("body", SHARED.values(), ids=SHARED)
def test_a_decision_that_all_replicas_share_is_no_finding(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, body) == []


def test_the_line_and_the_value_are_named(tmp_path: Path) -> None:
    assert found(tmp_path, UNSHARED["the mean loss"]) == [(7, "mean")]
    (said,) = unshared_decisions(tmp_path / "train.py")
    assert str(said) == (
        'line 11 ends training by "mean", which follows what each replica computes of its own samples: '
        "coadapt.combine(value) makes a value the same on all replicas"
    )


def test_a_file_that_is_no_python_has_no_decisions(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("for epoch in coadapt.epochs(")
    assert unshared_decisions(tmp_path / "train.py") == []
    assert unshared_decisions(tmp_path / "none.py") == []
