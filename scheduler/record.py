"""Everything the service keeps of one job, as one frozen value that is written whole. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

from ..core.job import JobSpec, JobState, Phase
from ..core.json_numbers import dumps, restored
from ..core.placement import NodeShare, Placement
from ..core.reports import MeasuredAt
from ..core.slot import Slot
from ..estimators.measurements import Measurements


@dataclass(frozen=True)
class ProfileRun:
    """One profile run of a job: where it is, or how it ended.

    `slot`: where its worker may live; None before it was started and once it is released. `started_s` None: not
    started. `ok` None: not ended. `sequence`: the number it was started with, of the job's `profile_sequence`.
    """

    gpu_type: str
    slot: Slot | None = None
    started_s: float | None = None
    ok: bool | None = None
    reason: str = ""
    sequence: int = 0
    tries: int = 0  # runs that ended
    losses: int = 0  # runs whose worker was lost
    ended_s: float | None = None  # since when the release of `slot` is waited for
    fault: str = ""  # the last error of the script here, of `executor.reconciling.failures.fault_of`

    @property
    def active(self) -> bool:
        return self.started_s is not None and self.ok is None

    @property
    def startable(self) -> bool:
        """To be measured, and nothing of it is left of an earlier try."""
        return self.ok is None and self.started_s is None and self.slot is None


class Stopped(StrEnum):
    """Why a job was told to leave all its GPUs."""

    EVICTED = "evicted"  # other jobs get them
    DRAINED = "drained"  # their nodes are going away
    DOWN = "down"  # the scheduler ends


@dataclass(frozen=True)
class JobRecord:
    """A job as stored.

    `target`: slots of the last `assign`; `held`: slots in which workers of the job may live, so always a
    superset of `target`; `group`: slots that train, by the executor's word; `sequence` numbers the commands
    to train to its executor, `profile_sequence` those to measure, which stand beside them: a profile run's slot
    is in `profiles` only. `pending_since_s`: since when a release has been waited for. `stopped`: why it was told
    to leave all its GPUs, until it trains again; None: it was not.
    """

    id: str
    number: int
    spec: JobSpec
    state: JobState
    package: str | None = None
    script_key: str = ""
    sequence: int = 0
    profile_sequence: int = 0
    target: tuple[Slot, ...] = ()
    held: tuple[Slot, ...] = ()
    group: tuple[Slot, ...] = ()
    pending_since_s: float | None = None
    profiles: tuple[ProfileRun, ...] = ()
    measurements: Measurements | None = None
    fingerprint: str = ""
    largest_gpus: dict[str, int] = field(default_factory=dict)
    pauses: int = 0
    lost_s: float = 0.0  # over all pauses: without training, or with new GPUs that waited for their processes
    claims: tuple[tuple[int, float], ...] = ()  # commands not carried out yet that gave it GPUs: sequence, when
    given: tuple[tuple[int, Slot], ...] = ()  # by the last command with each slot, until that is answered
    starts: int = 0  # of processes on GPUs it was given
    starting_s: float = 0.0  # over all starts: from then until it trained on them
    moves: int = 0  # from GPUs to others, or to more or fewer of them
    moving_s: float = 0.0  # over all moves: without training
    generation: int = 0  # of the last group that its executor told of; one that was made anew counts anew
    report: dict[str, Any] = field(default_factory=dict)  # the newest report, flattened for people
    reached: tuple[tuple[float, float], ...] = ()  # (moment, part of its epochs done) on the GPUs it has now
    metrics: dict[str, float] = field(default_factory=dict)
    measured_at: dict[str, MeasuredAt] = field(default_factory=dict)  # where in the training, by metric
    left_out: str = ""  # one sentence on metrics that are not kept
    traceback: str = ""  # of the script's last error
    stopped: Stopped | None = None
    retrying: bool = False  # its script failed and is being started again
    faults: int = 0  # errors of the script while it was measured
    ended_early: str = ""  # how far it was, where it ended by itself before all was done
    machines: tuple[str, ...] = ()  # addresses of those it has run on, whose folders go when it has ended
    retired: bool = False  # ended, and its executor is gone

    @property
    def folder(self) -> str:
        """Names its folder on each machine; ids begin anew with every job store."""
        told = f"{self.package} {self.state.submitted_s!r}".encode()
        return f"{self.id}-{hashlib.sha256(told).hexdigest()[:8]}"

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def active(self) -> bool:
        return not self.state.phase.is_terminal

    @property
    def occupied(self) -> tuple[Slot, ...]:
        """Every slot in which something of the job may live, profile runs included."""
        return (*self.held, *self.measured_in)

    @cached_property
    def measured_in(self) -> tuple[Slot, ...]:
        """Slots of its profile runs."""
        return tuple(run.slot for run in self.profiles if run.slot is not None)

    @cached_property
    def placement(self) -> Placement | None:
        """What it shall have; None: nothing. The same object as long as the record is the same."""
        return placement_of(self.target)

    @property
    def restart_cost_s(self) -> float | None:
        """Mean measured cost of this job's restarts; None before the first."""
        return self.lost_s / self.pauses if self.pauses else None

    @property
    def moving_since_s(self) -> float | None:
        """When it was given what it shall have and has not got wholly yet; None: it has, or shall have nothing."""
        return self.claims[-1][1] if self.claims and self.target else None

    @property
    def start_s(self) -> float | None:
        """Mean measured time from being given GPUs to training on them; None before the first."""
        return self.starting_s / self.starts if self.starts else None

    @property
    def pause_s(self) -> float | None:
        """Mean measured time without training of a move; None before the first."""
        return self.moving_s / self.moves if self.moves else None

    def profile(self, gpu_type: str) -> ProfileRun | None:
        return next((run for run in self.profiles if run.gpu_type == gpu_type), None)

    def to_json(self) -> str:
        """Return the record as JSON, without its measurements: the store keeps these beside it."""
        row = {name: getattr(self, name) for name in _WRITTEN}
        row["spec"] = self.spec.model_dump(mode="json")
        row["state"] = vars(self.state)
        for key in ("target", "held", "group"):
            row[key] = [_slot_row(slot) for slot in row[key]]
        row["measured_at"] = {name: (at.epoch, at.samples) for name, at in self.measured_at.items()}
        row["given"] = [(sequence, _slot_row(slot)) for sequence, slot in row["given"]]
        row["profiles"] = [
            {**vars(run), "slot": None if run.slot is None else _slot_row(run.slot)} for run in self.profiles
        ]
        return dumps(row)

    @classmethod
    def from_json(cls, text: str, measurements: Measurements | None = None) -> JobRecord:
        """Return the record that `to_json` wrote. Raises: ValueError, KeyError or TypeError for any other text."""
        row = json.loads(text)
        claimed_s = row.pop("claimed_s", None)  # of earlier versions, which knew of one command at a time
        claims = row.pop("claims", []) if claimed_s is None else [[row["sequence"], claimed_s]]
        given = row.pop("given", [(row["sequence"], slot) for slot in row["target"]])
        state = row.pop("state")
        profiles = tuple(
            ProfileRun(**(run | {"slot": _slot(run["slot"]) if run["slot"] and _holds(run) else None}))
            for run in row.pop("profiles")
        )
        return cls(
            **row
            | {
                "spec": JobSpec.model_validate(row["spec"]),
                "state": JobState(**(state | {"phase": Phase(state["phase"])})),
                "profiles": profiles,
                "target": tuple(_slot(slot) for slot in row["target"]),
                "held": tuple(_slot(slot) for slot in row["held"]),
                "group": tuple(_slot(slot) for slot in row["group"]),
                "machines": tuple(row.get("machines", ())),
                "claims": tuple((sequence, at) for sequence, at in claims),
                "given": tuple((sequence, _slot(slot)) for sequence, slot in given),
                "reached": tuple((at, fraction) for at, fraction in row.get("reached", ())),
                "report": restored(row["report"]),
                "metrics": restored(row["metrics"]),
                "measured_at": {name: MeasuredAt(*at) for name, at in row.get("measured_at", {}).items()},
                "stopped": Stopped(row["stopped"]) if row.get("stopped") else None,
                "measurements": measurements,
            }
        )


_WRITTEN = tuple(one.name for one in fields(JobRecord) if one.name != "measurements")


def _slot_row(slot: Slot) -> dict[str, Any]:
    return _row(slot, slot.cpus, slot.memory_gib, slot.share)


@lru_cache(maxsize=65_536)
def _row(slot: Slot, *amounts: float) -> dict[str, Any]:
    """Return the slot as JSON's own types. Records are written far more often than slots change.

    `amounts`: those of the slot, which equal slots need not share.
    """
    return asdict(slot)


def _slot(row: Mapping[str, Any]) -> Slot:
    """Return the slot of a row. One of earlier versions names no GPUs: these are below 0 until they get names."""
    if "devices" in row:
        return Slot(**{**row, "devices": tuple(row["devices"])})
    first = row["gpus"] * row.get("index", 0)
    devices = tuple(-1 - first - at for at in range(row["gpus"]))
    return Slot(devices=devices, **{name: row[name] for name in row if name not in ("gpus", "index")})


def _holds(run: dict[str, Any]) -> bool:
    """Whether a stored run may still live in its slot; earlier versions kept the slots of runs long over."""
    return run["ok"] is None or run.get("ended_s") is not None


@lru_cache(maxsize=65_536)
def placement_of(slots: tuple[Slot, ...]) -> Placement | None:
    """Return the placement that slots realise, the same object for the same slots; None for no slots."""
    if not slots:
        return None
    nodes: dict[str, list[Slot]] = {}
    for slot in slots:
        nodes.setdefault(slot.node_id, []).append(slot)
    return Placement(
        slots[0].gpu_type,
        tuple(
            NodeShare(
                node_id,
                sum(slot.gpus for slot in mine),
                sum(slot.cpus for slot in mine),
                sum(slot.memory_gib for slot in mine),
                mine[0].share,
                tuple(sorted(device for slot in mine for device in slot.devices)),
            )
            for node_id, mine in nodes.items()
        ),
    )
