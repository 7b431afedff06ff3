"""The three doors by which a program comes to the cluster, and what a job file of each may say.

A native script calls `coadapt.prepare` and is resized while it trains. A restarting command saves on SIGTERM and
is started again at another size. A plain program runs once at a fixed size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from .training_config import Adaptivity, TrainingConfig


class Door(StrEnum):
    """How a job's program works with the cluster."""

    NATIVE = "native"
    RESTARTING = "restarting"
    PLAIN = "plain"

    @property
    def line(self) -> str:
        """Say in words what the cluster does with the program."""
        return _LINES[self]


_LINES = {
    Door.NATIVE: "for a script that calls coadapt.prepare",
    Door.RESTARTING: "its program is stopped by SIGTERM and started again at another size",
    Door.PLAIN: "its program runs unchanged at one size",
}


class Processes(StrEnum):
    """How many processes of a command are started on a node."""

    GPU = "gpu"  # one per GPU, with torchrun's environment
    NODE = "node"  # one, which sees all GPUs of the job there


NO_PROGRAM = "give either script, a Python file, or command, a program with its arguments"
# What `training` may say where the program's own loop trains; the rest needs `coadapt.prepare`.
_OF_ALL_DOORS = ("initial_batch_size", "report_interval_s")
_ADAPTIVITY = {Door.PLAIN: Adaptivity.RIGID, Door.RESTARTING: Adaptivity.STRONG_SCALING}
# Starters that start one process per GPU by themselves.
_STARTERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "accelerate.commands.launch",
    "accelerate.commands.accelerate_cli",
    "deepspeed",
    "deepspeed.launcher.runner",
)
_WITH_VALUE = ("-W", "-X")  # options of Python that take the next word


def door(elastic: bool, sizes: object) -> Door:
    """Return the door of a job by two fields of its file."""
    if sizes is not None:
        return Door.RESTARTING
    return Door.NATIVE if elastic else Door.PLAIN


def completed(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job file's fields with those that follow from its door. Nothing that is written changes."""
    fields = dict(written)
    sizes = fields.get("sizes")
    if fields.get("command") and sizes is None:
        fields.setdefault("elastic", False)
    kind = door(fields.get("elastic") is not False, sizes)
    if kind is Door.NATIVE:
        return _as_group(fields)
    fields.setdefault("profile", False)
    fields["training"] = _with(fields.get("training"), {"adaptivity": _ADAPTIVITY[kind]})
    if kind is Door.PLAIN:
        fields.setdefault("preemptible", bool(fields.get("restartable", False)))
        fields["resources"] = _with(fields.get("resources"), {"gpus": 1})
    elif (every := _all_sizes(sizes)) is not None:
        limits: dict[str, Any] = {"min_gpus": min(every), "max_gpus": max(every)}
        if isinstance(sizes, Mapping):
            limits["gpu_types"] = list(sizes)
        fields["resources"] = _with(fields.get("resources"), limits)
    return fields


def _as_group(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a native job with those that follow from several trials."""
    trials = fields.get("trials")
    if not isinstance(trials, Sequence) or isinstance(trials, str) or len(trials) < 2:
        return fields
    fields["training"] = training = _with(fields.get("training"), {"adaptivity": Adaptivity.RIGID})
    if isinstance(training, Mapping) and training["adaptivity"] == Adaptivity.RIGID:
        fields["resources"] = _with(fields.get("resources"), {"gpus": 1})
    return fields


def _with(part: Any, defaults: Mapping[str, Any]) -> Any:
    """Return a part of a file with defaults; a part of a wrong kind stays, and is told by its own check."""
    if part is None:
        return dict(defaults)
    return {**defaults, **part} if isinstance(part, Mapping) else part


def _all_sizes(sizes: Any) -> list[int] | None:
    """Return all numbers of `sizes`; None where these are of a wrong kind, which their own check tells."""
    lists = list(sizes.values()) if isinstance(sizes, Mapping) else [sizes]
    if not all(isinstance(one, Sequence) and not isinstance(one, str) for one in lists):
        return None
    every = [n for one in lists for n in one]
    return every if every and all(isinstance(n, int) for n in every) else None


def check(spec: Any) -> None:
    """Refuse what the door of a `JobSpec` has no use for. Raises: ValueError, one sentence."""
    if bool(spec.script) == bool(spec.command):
        raise ValueError(f"script: {NO_PROGRAM}")
    if spec.command and spec.args:
        raise ValueError("args: they are of a script; a command holds its own arguments")
    if spec.command and not spec.command[0].strip():
        raise ValueError(f"command: its first word is {spec.command[0]!r}; the program is expected there")
    if spec.sizes == {}:
        raise ValueError("sizes: {} names no GPU type; give for example {a100: [1, 2]} or [1, 2]")
    if spec.sizes is not None and not spec.elastic:
        raise ValueError("sizes: a job with elastic: false has one size, resources.gpus")
    if spec.door is Door.NATIVE:
        _check_native(spec)
        return
    if spec.profile:
        raise ValueError(f"profile: true needs coadapt.prepare, which a {spec.door} job does not call")
    if spec.resources.processes_per_replica != "one":
        raise ValueError(
            "resources.processes_per_replica: gpu shards a model that coadapt.prepare is given, which a "
            f"{spec.door} job does not call; see processes"
        )
    _check_training(spec)
    if spec.door is Door.PLAIN:
        _check_plain(spec)
    else:
        _check_sizes(spec)


def _check_native(spec: Any) -> None:
    if spec.command:
        raise ValueError("command: an elastic command names its sizes, as sizes: [1, 2, 4]; else elastic is false")
    if spec.emulation.pause:
        raise ValueError("emulation.pause: true is for commands; coadapt.prepare keeps to a pace as it is")
    for field in ("processes", "restartable", "grace_s", "progress"):
        if getattr(spec, field) != type(spec).model_fields[field].default:
            raise ValueError(f"{field}: only a job with elastic: false, or with sizes, has it")


def _check_training(spec: Any) -> None:
    given = spec.training.model_dump(mode="json")
    usual = TrainingConfig(adaptivity=_ADAPTIVITY[spec.door]).model_dump(mode="json")
    for field, value in given.items():
        if field not in _OF_ALL_DOORS and value != usual[field]:
            what = "it" if isinstance(value, dict) else repr(value)
            raise ValueError(
                f"training.{field}: {what} needs coadapt.prepare, which a {spec.door} job does not call"
            )


def _check_plain(spec: Any) -> None:
    resources = spec.resources
    for field in ("min_gpus", "max_gpus"):
        if getattr(resources, field) != type(resources).model_fields[field].default:
            raise ValueError(f"resources.{field}: only elastic jobs have it; give resources.gpus, or sizes")
    if spec.preemptible and not spec.restartable:
        raise ValueError("preemptible: a job with elastic: false is moved only if it says restartable: true")


def _check_sizes(spec: Any) -> None:
    if spec.restartable:
        raise ValueError("restartable: a job with sizes is started again at other sizes anyway")
    named = spec.resources.gpu_types
    if isinstance(spec.sizes, dict) and named is not None and set(named) != set(spec.sizes):
        raise ValueError(f"resources.gpu_types: {named} are not the GPU types of sizes, {list(spec.sizes)}")
    if spec.resources.gpus_per_replica != 1:
        raise ValueError("resources.gpus_per_replica: a job with sizes says by them how many GPUs it can have")
    lists = spec.sizes.values() if isinstance(spec.sizes, dict) else [spec.sizes or []]
    every = [n for one in lists for n in one]
    if (spec.resources.min_gpus, spec.resources.max_gpus) != (min(every), max(every)):
        raise ValueError(
            "resources.min_gpus and max_gpus: a job with sizes says by them how many GPUs it can have"
        )


def processes_of(spec: Any) -> Processes:
    """Return how many processes of a command start on a node: what the file says, or else by its first words.

    A Python program gets one per GPU. A starter such as torchrun, a shell and any other program get one per node.
    """
    if spec.processes is not None:
        return Processes(spec.processes)
    if spec.script:
        return Processes.GPU
    words = spec.command
    python = words[0].rsplit("/", 1)[-1].startswith("python")
    return Processes.GPU if python and _run_by_python(words[1:]) not in _STARTERS else Processes.NODE


def _run_by_python(words: Sequence[str]) -> str:
    """Return the module or the name of the file that Python is to run, behind its own options; "" for neither."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if re.fullmatch(r"-[A-Za-z]*m", option):
            return rest[0] if rest else ""
        if option in _WITH_VALUE and rest:
            rest.pop(0)
    return rest[0].rsplit("/", 1)[-1] if rest else ""
