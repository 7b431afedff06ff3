"""A learner: how long runs of a script take, by who runs it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, ClassVar

from ..core.log_normal import LogNormal
from .curves.curve import Curve
from .learner import EndedRun

MOST_CURVES = 4  # the newest of each metric of a script
MOST_RUNS = 32  # the newest of a script; older ones are of other data or code
# Deviation of the log of a length that one run alone is taken to have; more runs measure it.
PRIOR_SIGMA = 0.3
MOST_LOSS = math.log(10)  # of a length that is off tenfold or more, and of a script that is not known


@dataclass(frozen=True)
class Lengths:
    """What earlier runs of a script took. `samples`: None where they did not say.

    `curves`: of the metrics that their targets named, by samples at the initial batch size; the newest last.
    """

    seconds: LogNormal
    samples: LogNormal | None = None
    curves: Mapping[str, tuple[Curve, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunLengths:
    """(user, script) -> `Lengths`."""

    known: Mapping[tuple[str, str], Lengths] = field(default_factory=dict)

    def of(self, user: str, script: str) -> Lengths | None:
        """Return what is known of a script; None: no run of it has ended."""
        return self.known.get((user, script))

    def to_json(self) -> Mapping[str, Any]:
        """Return the model as plain JSON values."""
        return {
            "scripts": [
                {"user": user, "script": script, "seconds": _pair(of.seconds), "samples": _pair(of.samples)}
                | (
                    {"curves": {name: [c.points for c in all] for name, all in of.curves.items()}}
                    if of.curves
                    else {}
                )
                for (user, script), of in sorted(self.known.items())
            ]
        }


class RunLengthLearner:
    """Fits `RunLengths` to the newest runs of each script."""

    name: ClassVar[str] = "run_lengths"

    def fit(self, history: Sequence[EndedRun], now: float) -> RunLengths:
        """Return the lengths of these runs, given in the order in which they ended."""
        runs: dict[tuple[str, str], list[EndedRun]] = {}
        for run in history:
            if run.trained_s > 0:
                runs.setdefault((run.user, run.script), []).append(run)
        return RunLengths({key: _lengths(of[-MOST_RUNS:]) for key, of in runs.items()})

    def loss(self, model: RunLengths, runs: Sequence[EndedRun]) -> float:
        """Return the mean error of the log of a length; of runs that trained at all."""
        found = [_error(model.of(run.user, run.script), run) for run in runs if run.trained_s > 0]
        return fmean(found) if found else 0.0

    def read(self, document: Mapping[str, Any]) -> RunLengths:
        """Return the model that `to_json` wrote. Raises ValueError, in one sentence, for any other document."""
        try:
            known = {}
            for row in document["scripts"]:
                seconds, samples = _log_normal(row["seconds"]), _log_normal(row["samples"])
                if seconds is None or not isinstance(row["user"], str) or not isinstance(row["script"], str):
                    raise ValueError(f"script {row['script']!r} needs a user and seconds")
                of = {name: tuple(map(Curve.of, found)) for name, found in row.get("curves", {}).items()}
                known[row["user"], row["script"]] = Lengths(seconds, samples, of)
        except ValueError as error:
            raise ValueError(f"run_lengths: {error}") from None
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"run_lengths: is no such model: {type(error).__name__}: {error}") from None
        return RunLengths(known)


def _lengths(runs: Sequence[EndedRun]) -> Lengths:
    seconds = LogNormal.of([run.trained_s for run in runs], PRIOR_SIGMA)
    samples = [run.samples for run in runs if run.samples]
    curves: dict[str, tuple[Curve, ...]] = {}
    for run in runs:
        if len(run.curve.curve) > 1:
            metric = run.curve.metric
            curves[metric] = (*curves.get(metric, ()), run.curve.curve)[-MOST_CURVES:]
    return Lengths(seconds, LogNormal.of(samples, PRIOR_SIGMA) if samples else None, curves)


def _error(known: Lengths | None, run: EndedRun) -> float:
    """Return the error of the log of the run's length: of its seconds, and of its samples where it told them."""
    if known is None:
        return MOST_LOSS
    found = [_log_error(known.seconds, run.trained_s)]
    if run.samples:
        found.append(_log_error(known.samples, run.samples))
    return fmean(found)


def _log_error(known: LogNormal | None, length: float) -> float:
    return MOST_LOSS if known is None else min(abs(math.log(known.median / length)), MOST_LOSS)


def _pair(of: LogNormal | None) -> list[float] | None:
    return None if of is None else [of.median, of.sigma]


def _log_normal(pair: Any) -> LogNormal | None:
    return None if pair is None else LogNormal(*pair)
