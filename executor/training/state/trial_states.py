"""The states of a group's trials: where each begins, what a checkpoint holds of them, and who leaves.

A checkpoint has the state of each trial by itself. So a trial goes on in whichever group has it next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from ....core.trials import Trial, url_of_epoch
from ..fused import roster
from ..fused.errors import CannotFuse
from ..fused.group import TrialGroup
from ..fused.of_trials import of_trial, together
from ..fused.one_trial import OneTrial
from ..variables.rng import capture_rng, restore_rng
from .checkpoint import CheckpointStore
from .checkpoint_errors import CheckpointError
from .prepared import Prepared
from .training_state import Position

FORMAT = "trials-1"


class TrialStates:
    """Keeps who is in a group, and the states of those that have left it.

    Args:
        sources: jobs that trials go on from -> the URLs of their checkpoints.
        store: None where the job has no checkpoint folder.
        position: how far the group is.
        kept_epochs: after which all states are kept for others.
    """

    def __init__(
        self,
        prepared: Prepared,
        group: TrialGroup | OneTrial,
        trials: Sequence[Trial],
        sources: Mapping[str, str],
        store: CheckpointStore | None,
        position: Position,
        kept_epochs: Collection[int] = (),
    ) -> None:
        self._prepared, self._group, self._store, self._position = prepared, group, store, position
        self._users = [*prepared.users, *prepared.scalers]
        self._trials, self._sources = {trial.number: trial for trial in trials}, sources
        self._kept_epochs = kept_epochs
        self._rng: dict[str, Any] | None = None  # where the next epoch begins
        self._left: dict[int, dict[str, Any]] = {}  # of trials that have left: their states, and where these were
        self.saved: str | None = None  # the newest checkpoint

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the trials that train, in their order."""
        return tuple(self._trials)

    @property
    def left(self) -> tuple[int, ...]:
        """Numbers of trials whose states stay in the checkpoint for others."""
        return tuple(self._left)

    def take_over(self) -> str:
        """Go on from the job's own checkpoint, or from those of other jobs; return which, or "fresh".

        Raises: CheckpointError; CannotFuse where trials cannot go on together.
        """
        found = None if self._store is None else self._store.load_newest(self._prepared.device)
        if found is not None:
            self.saved, state = found
            self._go_on(state)
            return "checkpoint"
        begun = [trial for trial in self._trials.values() if trial.from_job is not None]
        if not begun:
            return "fresh"
        if len(begun) < len(self._trials):
            fresh = next(trial.number for trial in self._trials.values() if trial.from_job is None)
            raise CannotFuse(f"trials: {fresh} begins anew, and the others go on from checkpoints")
        self._come_together(begun)
        return "checkpoint"

    def begin_epoch(self) -> None:
        """Put random numbers where they were at the end of the epoch before."""
        if self._rng is None:
            self._rng = self._random()
        else:
            self._put_random(self._rng)

    def keep_for_others(self) -> None:
        """Keep all states of this epoch, if that was asked for. Raises what the store raises."""
        if self._store is not None and self._position.epoch in self._kept_epochs:
            self._rng = self._random()
            CheckpointStore(url_of_epoch(self._store.url, self._position.epoch), 1).save(
                self._captured(), self._position.steps
            )

    def save(self) -> str | None:
        """Write a checkpoint at the end of an epoch; return its path. Raises what the store raises."""
        self._rng = self._random()
        if self._store is None:
            return None
        self.saved = self._store.save(self._captured(), self._position.steps)
        return self.saved

    def keep(self, numbers: Sequence[int], with_state: bool) -> None:
        """Train only these trials on; those that are not there count as gone before.

        Args:
            with_state: whether the states of the others stay in the checkpoint.
        """
        places = {number: place for place, number in enumerate(self._trials)}
        kept = [number for number in places if number in set(numbers)]
        if not kept or len(kept) == len(places):
            return
        if with_state:
            where, random = asdict(self._position), self._random()
            for number in places.keys() - set(kept):
                self._left[number] = {"state": self._state_of(places[number]), "position": where, "rng": random}
        users = [self._state_of(places[number])["users"] for number in kept]
        self._group.keep([places[number] for number in kept])
        self._give_users(users)
        self._trials = {number: self._trials[number] for number in kept}

    def _go_on(self, state: dict[str, Any]) -> None:
        """Take over a checkpoint of this job. Trials that had left it are not in it any more."""
        _check_format(state)
        there = [number for number in self._trials if str(number) in state["states"]]
        if not there:
            raise CannotFuse("trials: the checkpoint of this job has none of its trials")
        if len(there) < len(self._trials):  # numbers that the script has by now are of all
            roster.dropped(len(self._trials), [i for i, number in enumerate(self._trials) if number in there])
        self._trials = {number: self._trials[number] for number in there}
        self._position.load(state["position"])
        self._left = {int(number): one for number, one in state["left"].items()}
        self._become([state["states"][str(number)] for number in there], state["rng"])

    def _come_together(self, trials: Sequence[Trial]) -> None:
        """Begin where trials of other jobs were. Raises: CannotFuse where these are at different epochs."""
        loaded = {one: self._load(*one) for one in dict.fromkeys((t.from_job, t.from_epoch) for t in trials)}
        found = [_found(loaded[trial.from_job, trial.from_epoch], trial) for trial in trials]
        epochs = sorted({one["position"]["epoch"] for one in found})
        if len(epochs) > 1:
            raise CannotFuse(
                f"trials: they are after {' and '.join(map(str, epochs))} epochs, not at the same place"
            )
        self._position.load({**found[0]["position"], "target_reached": False, "ended": False})
        self._become([one["state"] for one in found], found[0]["rng"])

    def _load(self, job: str | None, epoch: int | None) -> dict[str, Any]:
        assert job is not None
        url = self._sources[job] if epoch is None else url_of_epoch(self._sources[job], epoch)
        found = CheckpointStore(url).load_newest(self._prepared.device)
        if found is None:
            of = "" if epoch is None else f" of epoch {epoch}"
            raise CheckpointError(f"from_job: {job} has no checkpoint{of}")
        _check_format(found[1])
        return found[1]

    def _become(self, states: Sequence[dict[str, Any]], rng: dict[str, Any]) -> None:
        self._group.become([state["group"] for state in states])
        self._give_users([state["users"] for state in states])
        self._rng = rng

    def _give_users(self, states: Sequence[Sequence[Any]]) -> None:
        for user, own in zip(self._users, zip(*states, strict=True), strict=True):
            user.load_state_dict(together(own))

    def _captured(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "states": {str(number): self._state_of(place) for place, number in enumerate(self._trials)},
            "left": {str(number): one for number, one in self._left.items()},
            "position": asdict(self._position),
            "rng": self._rng,
        }

    def _state_of(self, place: int) -> dict[str, Any]:
        users = [of_trial(user.state_dict(), place) for user in self._users]
        return {"group": self._group.state_of(place), "users": users}

    def _random(self) -> dict[str, Any]:
        """Return the states of all random numbers that decide what comes next."""
        return {**capture_rng(), "own": [one.get_state() for one in self._generators()]}

    def _put_random(self, state: Mapping[str, Any]) -> None:
        restore_rng(state)
        for generator, own in zip(self._generators(), state["own"], strict=False):
            generator.set_state(own.cpu())

    def _generators(self) -> list[torch.Generator]:
        """Return the generators by which the script's loader draws, beside the global ones."""
        loader = self._prepared.loader
        places = [loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler", "dataset"))]
        held = [getattr(place, "generator", None) for place in places]
        return list({id(one): one for one in held if isinstance(one, torch.Generator)}.values())


def _found(state: Mapping[str, Any], trial: Trial) -> dict[str, Any]:
    """Return what a checkpoint has of a trial: its state, and where that was. Raises: CheckpointError."""
    number = str(trial.source)
    if number in state["states"]:
        return {"state": state["states"][number], "position": state["position"], "rng": state["rng"]}
    if number in state["left"]:
        return dict(state["left"][number])
    there = ", ".join([*state["states"], *state["left"]])
    raise CheckpointError(f"from_job: {trial.from_job} has no trial {number} in its checkpoint, only {there}")


def _check_format(state: Mapping[str, Any]) -> None:
    if state.get("format") != FORMAT:
        raise CheckpointError("checkpoint: it is of no group of trials, so no trial goes on from it")
