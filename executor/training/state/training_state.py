"""Everything that a training run is made of, as one dictionary that does not depend on the number of replicas.

The same dictionary goes into checkpoints and, over the process group, to newcomers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..gradients.gradient_noise import GradientNoise
from ..sharding.states import changed, cut, matched, matched_optimizer
from ..sharding.stored import Stored, room_for
from ..variables.rng import capture_rng, restore_rng
from .forked import options_of, whose
from .misfits import misfit

if TYPE_CHECKING:
    from .prepared import Prepared, Stateful

FORMAT = 2
MOST_RESTS = 2  # steps of fewer batches in a row: an epoch may end with one, and the next one begin with one


class OtherScriptError(ValueError):
    """A checkpoint is of another script; one sentence for a person."""


@dataclass
class Position:
    """How far the training is. Of two positions, compared by `key`, the later one is larger.

    `epoch` counts passes over the data, and `loop` finished loops over the loader within one. `batch` and
    `offset` are the script's batches and the samples of the running loop.
    What is kept back of a step counts as not done.
    """

    epoch: int = 0
    loop: int = 0
    batch: int = 0
    offset: int = 0
    iterations: int = 0  # batches combined, also those whose step a GradScaler skipped
    steps: int = 0  # optimizer steps
    samples: int = 0
    progress_samples: float = 0.0
    pass_samples: int = 0  # of the running pass
    pass_progress: float = 0.0
    last_pass: float = 1.0  # progress of the pass before, in epochs
    last_samples: int = 0  # of the pass before
    epochs_done: float = 0.0  # epochs of progress before the running pass
    script_steps: float = 0.0  # progress in steps of the script
    per_step: int = 1  # batches of the script to a step of its own
    shorter: int = 0  # its steps of fewer batches than that, one after the other
    shown: int = -1  # the last number that `epochs` or `steps` gave
    again: bool = False  # whether the script had been given it before
    begun: bool = False  # whether the pass or step of that number is under way
    whole: bool = True  # whether the loop is given the script's own batches
    counted: bool = False  # whether the script has been seen to count them
    target_reached: bool = False
    ended: bool = False  # whether the script itself ended its training
    # Epochs or steps that were done when each of the script's loops over them was over; the last one's is open.
    ends: list[float] = field(default_factory=list)
    # Advances owed to each LR scheduler: what was made, minus the whole steps that were taken.
    schedule_credit: list[float] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, int, int, int]:
        return self.epoch, self.loop, self.batch, self.offset

    def load(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def count_step_of(self, batches: int) -> None:
        """Note how many batches make a step of the script. Up to `MOST_RESTS` shorter steps in a row are rests."""
        self.shorter = self.shorter + 1 if batches < self.per_step else 0
        if batches > self.per_step or self.shorter > MOST_RESTS:
            self.per_step, self.shorter = batches, 0


@dataclass
class TrainingState:
    """What `prepare` was given and what the session counts, by reference.

    `extras` are further parts by name: a function that captures one, and one that takes it over.
    `taken`: the state that was taken over, until the script has come to its place.
    """

    prepared: Prepared
    noise: GradientNoise
    position: Position
    extras: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = field(default_factory=dict)
    taken: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.options = [options_of(optimizer) for optimizer in self.prepared.optimizers]  # as the script made them

    def capture(self) -> dict[str, Any]:
        """Return the state now; its tensors are the live ones."""
        if self.taken is not None and self.taken["variables"]["in_pass"]:
            return self.taken  # until it is there, the script does again what this state counts as done
        prepared = self.prepared
        return {
            "format": FORMAT,
            "models": [module.state_dict() for module in prepared.modules],
            "companions": [module.state_dict() for module in prepared.companions],
            "strays": [parameter.detach() for parameter in prepared.strays()],
            "frozen": [not parameter.requires_grad for parameter in prepared.parameters()],
            "groups": [_groups_of(optimizer, prepared) for optimizer in prepared.optimizers],
            "kinds": [type(optimizer).__name__ for optimizer in prepared.optimizers],
            "job": whose(),
            "options": self.options,
            "optimizers": [optimizer.state_dict() for optimizer in prepared.optimizers],
            "schedulers": [scheduler.state_dict() for scheduler in prepared.schedulers],
            "scalers": [scaler.state_dict() for scaler in prepared.scalers],
            "users": [user.state_dict() for user in prepared.users],
            "noise": self.noise.state_dict(),
            "position": asdict(self.position),
            "rng": capture_rng(),
            **{name: capture() for name, (capture, _) in self.extras.items()},
        }

    def apply(self, state: dict[str, Any], rank: int) -> None:
        """Continue from `state`. Rank 0 also continues its random numbers; the others get their own.

        Raises OtherScriptError where the state belongs to another script, or to one that has changed its model
        meanwhile.
        """
        state = self.cut(as_current(state))
        self.put_back(state, rank)
        self.noise.load_state_dict(state["noise"])
        self.position.load(state["position"])
        for name, (_, take_over) in self.extras.items():
            if name in state:
                take_over(state[name])

    def put_back(self, state: dict[str, Any], rank: int) -> None:
        """Put back what `prepare` was given, and random numbers as `apply` does; what the session counts stays."""
        prepared, state = self.prepared, self.cut(state)
        for kind, mine in self._by_kind().items():
            if len(state[kind]) != len(mine):
                raise OtherScriptError(
                    f"checkpoint: holds {len(state[kind])} {kind}, the script prepares {len(mine)}; "
                    "another script cannot go on from it"
                )
        for kind, optimizer in zip(state.get("kinds", []), prepared.optimizers, strict=False):
            if kind != type(optimizer).__name__:
                raise OtherScriptError(
                    f"checkpoint: holds the state of {kind}, the script prepares {type(optimizer).__name__}; "
                    "another script cannot go on from it"
                )
        for optimizer, groups in zip(prepared.optimizers, state.get("groups", []), strict=False):
            _regroup(optimizer, groups, prepared)
        for parameter, frozen in zip(prepared.parameters(), state.get("frozen", []), strict=False):
            if parameter.requires_grad == frozen:
                parameter.requires_grad_(not frozen)
        try:
            for kind, mine in self._by_kind().items():
                for target, part in zip(mine, state[kind], strict=True):
                    target.load_state_dict(part)
        except (RuntimeError, KeyError, ValueError) as error:
            own, saved = [*prepared.modules, *prepared.companions], [*state["models"], *state["companions"]]
            told = misfit(own, saved) or " ".join(str(error).split())
            raise OtherScriptError(f"checkpoint: does not fit the script; {told}") from None
        with torch.no_grad():
            for parameter, value in zip(prepared.strays(), state.get("strays", []), strict=False):
                parameter.copy_(value)
        if rank == 0:
            restore_rng(state["rng"])
        else:
            diversify(state["position"]["iterations"], rank)

    def cut(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a state whose whole tensors are cut as this process's sharded models are."""
        return state if self.prepared.shards is None else self._matched(state, cut)

    def with_room(self, state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return a state with empty tensors where it has stored ones, and these by the names of what is stored."""
        rooms: dict[str, Tensor] = {}
        parameters = self.prepared.parameters()

        def room(own: Any, value: Any) -> Any:
            if not isinstance(value, Stored):
                return value
            rooms[value.name] = room_for(value, own, parameters)
            return rooms[value.name]

        made = changed(self._matched(state, room), Stored, lambda stored, _: room(None, stored))
        return made, rooms

    def _matched(self, state: dict[str, Any], fit: Callable[[Any, Any], Any]) -> dict[str, Any]:
        """Return a state as `fit` makes each of its tensors of what this process has at the same place."""
        prepared = self.prepared
        optimizers, parameters = state["optimizers"], prepared.parameters()
        made = {
            kind: [matched(target.state_dict(), part, fit) for target, part in zip(mine, state[kind], strict=True)]
            for kind, mine in self._by_kind().items()
            if kind != "optimizers" and len(mine) == len(state[kind])
        }
        if len(optimizers) == len(prepared.optimizers):
            pairs = zip(prepared.optimizers, optimizers, strict=True)
            made["optimizers"] = [matched_optimizer(optimizer, part, fit) for optimizer, part in pairs]
        strays = [parameter.detach() for parameter in prepared.strays()]
        return {
            **state,
            **made,
            "strays": matched(strays, state.get("strays", []), fit),
            "accumulated": matched(dict(enumerate(parameters)), state.get("accumulated", {}), fit),
        }

    def _by_kind(self) -> dict[str, Sequence[Stateful | nn.Module]]:
        prepared = self.prepared
        return {
            "models": prepared.modules,
            "companions": prepared.companions,
            "optimizers": prepared.optimizers,
            "schedulers": prepared.schedulers,
            "scalers": prepared.scalers,
            "users": prepared.users,
        }


def as_current(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state of an earlier format as one of this. Raises ValueError for an unknown one."""
    if state.get("format") == FORMAT:
        return state
    if state.get("format") != 1:
        raise ValueError(
            f"checkpoint: format {state.get('format')!r} is unknown; this version reads 1 and {FORMAT}"
        )
    position = dict(state["position"])
    position["epochs_done"] = float(position["epoch"])
    position["shown"] = position["epoch"] - 1
    return {**state, "format": FORMAT, "models": [state["model"]], "companions": [], "position": position}


def _groups_of(optimizer: torch.optim.Optimizer, prepared: Prepared) -> list[list[int]]:
    """Return the numbers of the parameters of each group; these may change while training."""
    number = {parameter: i for i, parameter in enumerate(prepared.parameters())}
    return [[number[parameter] for parameter in group["params"]] for group in optimizer.param_groups]


def _regroup(optimizer: torch.optim.Optimizer, groups: list[list[int]], prepared: Prepared) -> None:
    """Give an optimizer the groups that it has in the process that the state is of."""
    if _groups_of(optimizer, prepared) == groups:
        return
    parameters = prepared.parameters()
    if any(number >= len(parameters) for group in groups for number in group):
        raise OtherScriptError(
            "checkpoint: an optimizer trains parameters that the model did not have when prepare was called; make "
            "all of them before, and freeze those that come later"
        )
    optimizer.param_groups.clear()
    for group in groups:
        optimizer.add_param_group({"params": [parameters[number] for number in group], **_unnamed(optimizer)})


def _unnamed(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return options that a group needs where the class has no default; the loaded state overwrites all."""
    return {"lr": 0.0} if "lr" in optimizer.defaults and optimizer.defaults["lr"] is None else {}


def diversify(seed: int, rank: int) -> None:
    """Seed a rank's own random numbers, so that replicas do not drop out the same units."""
    torch.manual_seed(hash((seed, rank, 0x5EED)) % 2**63)
