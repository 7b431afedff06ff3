"""What a study tries next, by Optuna's samplers. Pure: the same trials so far and seed give the same proposals."""

from __future__ import annotations

import itertools
import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .space import Space, Value

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

_TRIES = 20  # draws of a trial that was already proposed, before the rest of the space is listed
_MOST_LISTED = 200_000


@dataclass(frozen=True)
class Tried:
    """A trial so far. `metric`: None, where it runs or did not report one that is finite."""

    values: Mapping[str, Value]
    metric: float | None = None
    ended: bool = False


def propose(
    algorithm: str, space: Space, mode: str, seed: int, tried: Sequence[Tried], count: int
) -> list[dict[str, Value]]:
    """Return the values of the next trials, no two of all trials alike unless the space has no more.

    Args:
        algorithm: `tpe` and `gp` learn from `tried`; all others draw at random.
        tried: every trial so far, in the order of their numbers.
        count: how many to propose. Results of those that run count as unknown, as constant liars have it.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("optuna").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = _sampler(algorithm, seed, len(tried))
        study = optuna.create_study(sampler=sampler, direction="maximize" if mode == "max" else "minimize")
        if algorithm in ("tpe", "gp"):
            study.add_trials([one for trial in tried if (one := _frozen(space, trial)) is not None])
        distributions = space.distributions()
        seen = {_key(trial.values) for trial in tried}
        found: list[dict[str, Value]] = []
        for _ in range(count):
            trial = space.trial(study.ask(distributions).params)
            for _ in range(_TRIES):
                if _key(trial) not in seen:
                    break
                trial = space.trial(study.ask(distributions).params)
            else:
                trial = _unseen(space, seen, seed + len(tried) + len(found)) or trial
            seen.add(_key(trial))
            found.append(trial)
    return found


def wave_of(trials: int, wave: int | None) -> int:
    """Return how many trials a learning sampler proposes at once: if none is said an eighth, at least 8."""
    return min(wave or max(math.ceil(trials / 8), 8), trials)


def _sampler(algorithm: str, seed: int, before: int) -> BaseSampler:
    import optuna

    own = int(np.random.SeedSequence([seed, before]).generate_state(1)[0])
    if algorithm == "tpe":
        return optuna.samplers.TPESampler(seed=own, constant_liar=True, multivariate=True)
    if algorithm == "gp":
        return optuna.samplers.GPSampler(seed=own)
    return optuna.samplers.RandomSampler(seed=own)


def _frozen(space: Space, trial: Tried) -> FrozenTrial | None:
    from optuna.trial import TrialState, create_trial

    params, distributions = space.drawn(trial.values), space.distributions()
    if trial.metric is not None:
        return create_trial(params=params, distributions=distributions, value=trial.metric)
    if trial.ended:  # it failed, or ended in NaN
        return create_trial(params=params, distributions=distributions, state=TrialState.FAIL)
    return create_trial(params=params, distributions=distributions, state=TrialState.RUNNING)


def _key(values: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in values.items()))


def _unseen(space: Space, seen: set[tuple[tuple[str, str], ...]], seed: int) -> dict[str, Value] | None:
    if space.size > _MOST_LISTED:
        return None
    names = [one.name for one in space.searched]
    every = (
        dict(zip(names, each, strict=True)) for each in itertools.product(*(d.values() for d in space.searched))
    )
    left = [trial for one in every if _key(trial := space.trial(one)) not in seen]
    return left[int(np.random.default_rng(seed).integers(len(left)))] if left else None
