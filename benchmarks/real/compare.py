"""Whether a run ended as another one did. Pure but for reading what the runs have written."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

# Of metrics and facts; parameters have the tolerance of their script.
RELATIVE, ABSOLUTE = 1e-3, 1e-5


@dataclass
class Outcome:
    """What a run left: one entry of `ends` for each process that came to the script's end."""

    ends: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    reported: dict[int, dict[str, float]] = field(default_factory=dict)
    phases: list[Any] = field(default_factory=list)  # how a group was made up, as `reference.Phase`s


def read(folder: Path, names: Iterable[str]) -> Outcome:
    """Return what a run wrote into its folder; `names` are those of the processes that ended the script."""
    outcome = Outcome()
    for name in names:
        path = folder / f"final-{name}.pt"
        if path.exists():
            outcome.ends[name] = torch.load(path, weights_only=False)
    for path in folder.glob("seen-*.txt"):
        for line in path.read_text().splitlines():
            epoch, *samples = line.split()
            outcome.seen.update((epoch, sample) for sample in samples)
    reported = folder / "reported.pickle"
    if reported.exists():
        outcome.reported = pickle.loads(reported.read_bytes())
    return outcome


def differences(
    reference: Outcome,
    got: Outcome,
    *,
    seen: Counter[tuple[str, str]],
    parts: Sequence[str],
    replays: bool,
    tolerance: float,
) -> list[str]:
    """Return one sentence for each thing that is not as in `reference`; samples are compared with `seen`."""
    found: list[str] = []
    if not got.ends:
        found.append("no process came to save()")
    (expected,) = reference.ends.values()
    if "model" not in parts:
        found += _alike(got.ends)
    for name, end in got.ends.items():
        if "model" in parts:
            apart = {} if "buffers" in parts else dict.fromkeys(expected["buffers"])
            models = [{k: v for k, v in one["model"].items() if k not in apart} for one in (expected, end)]
            found += _models(f"process {name}", *models, tolerance)
        if "facts" in parts:
            found += _values(f"process {name}", expected["facts"], end["facts"])
    if "seen" in parts:
        found += _samples(seen, got.seen, replays or "repeats" not in parts)
    if "metrics" in parts:
        found += _metrics(reference.reported, got.reported, only_last=replays)
    return found


def _alike(ends: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what differs between replicas, whose parameters must be the same."""
    (first, *others) = ends or [""]
    return [
        f"{line}, from process {first}"
        for other in others
        for line in _models(f"process {other}", ends[first]["model"], ends[other]["model"], 0.0)
    ]


def _models(who: str, expected: Mapping[str, Any], got: Mapping[str, Any], tolerance: float) -> list[str]:
    if expected.keys() != got.keys():
        return [f"{who}: names of parameters differ: {sorted(expected.keys() ^ got.keys())}"]
    worst = ("", 0.0)
    for name, value in expected.items():
        mine = got[name]
        if mine.shape != value.shape:
            return [f"{who}: {name} has shape {tuple(mine.shape)}, not {tuple(value.shape)}"]
        if not torch.allclose(mine, value, rtol=tolerance, atol=tolerance / 10, equal_nan=True):
            apart = float((mine.double() - value.double()).abs().nan_to_num(math.inf).max())
            worst = max(worst, (name, apart), key=lambda pair: pair[1])
    return [f"{who}: {worst[0]} is {worst[1]:.3g} apart"] if worst[0] else []


def _samples(expected: Counter[tuple[str, str]], got: Counter[tuple[str, str]], replays: bool) -> list[str]:
    never = expected - got
    twice = got - expected
    found = []
    if never:
        found.append(f"{sum(never.values())} of {sum(expected.values())} samples never seen, {_some(never)}")
    unknown = [sample for sample in twice if sample not in expected]
    if unknown or (twice and not replays):
        found.append(f"{sum(twice.values())} samples seen too often, {_some(twice)}")
    return found


def _some(samples: Counter[tuple[str, str]]) -> str:
    by_epoch = Counter({epoch: 0 for epoch, _ in samples})
    for (epoch, _), count in samples.items():
        by_epoch[epoch] += count
    return ", ".join(f"{count} in epoch {epoch}" for epoch, count in sorted(by_epoch.items()))


def _metrics(
    expected: Mapping[int, Mapping[str, float]], got: Mapping[int, Mapping[str, float]], only_last: bool
) -> list[str]:
    epochs = sorted(expected)[-1:] if only_last else sorted(expected)
    found = []
    for epoch in epochs:
        for name, value in expected[epoch].items():
            mine = got.get(epoch, {}).get(name)
            if mine is None:
                found.append(f"{name} of epoch {epoch} was not reported")
            elif not _close(value, mine):
                found.append(f"{name} of epoch {epoch} is {mine:.6g}, not {value:.6g}")
    return found


def _values(where: str, expected: Any, got: Any) -> list[str]:
    """Return differences of plain values, however nested."""
    if isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor):
        expected, got = expected.tolist(), got.tolist()
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        return [line for key in expected for line in _values(f"{where}: {key}", expected[key], got[key])]
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        if len(expected) != len(got):
            return [f"{where} has {len(got)} values, not {len(expected)}"]
        pairs = zip(expected, got, strict=True)
        return [line for i, pair in enumerate(pairs) for line in _values(f"{where}[{i}]", *pair)][:3]
    same = _close(expected, got) if _is_number(expected) and _is_number(got) else expected == got
    return [] if same else [f"{where} is {_short(got)}, not {_short(expected)}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _close(expected: float, got: float) -> bool:
    if isinstance(expected, int) and isinstance(got, int):
        return expected == got
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    return math.isclose(expected, got, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else f"{value!r:.60}"
