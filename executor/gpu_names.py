"""What a training process is shown of its node: GPUs by position, in the names that the driver knows; threads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..core.slot import Slot

CUDA, HIP, THREADS = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS"
HIDDEN = ("", "NoDevFiles")  # values by which a node's agent sees no GPUs


class GpuNameError(ValueError):
    """A GPU that the node's agent does not see; one sentence."""


def given_by(slot: Slot, own: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that show a process its GPUs and give it a thread for each of its CPUs.

    `own`: what the process is given besides. Where that, or `environment`, says how many threads, that stays.
    An emulated slot is given nothing: it has no GPUs. Raises: GpuNameError, as `visible_gpus`.
    """
    if slot.emulated:
        return {}
    said = THREADS in environment or THREADS in own
    threads = {} if said else {THREADS: str(max(int(round(slot.cpus, 6)), 1))}
    return threads | visible_gpus(slot.devices, environment)


def visible_gpus(devices: Sequence[int], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that shows a process these GPUs of its node, and no others.

    `environment`: that of the node's agent. Where it sees a part of the machine's GPUs, `devices` are positions in
    its list, whose names are passed on: indices, UUIDs or MIG instances. Else they are the machine's own indices.

    Raises: GpuNameError where the agent sees fewer GPUs.
    """
    variable = HIP if HIP in environment else CUDA
    listed = environment.get(variable)
    if listed is None:
        return {variable: ",".join(map(str, devices))}
    names = [] if listed.strip() in HIDDEN else [name.strip() for name in listed.split(",")]
    for device in devices:
        if not 0 <= device < len(names):
            seen = f"{len(names)} ({variable}={listed})"
            raise GpuNameError(f"devices: GPU {device} of a node whose agent sees {seen}")
    return {variable: ",".join(names[device] for device in devices)}


def names_on_machine(slot: Slot, environment: Mapping[str, str]) -> list[str]:
    """Return what tells the GPUs of a slot from all others of this machine; emulated ones belong to their node.

    Raises: GpuNameError, as `visible_gpus`.
    """
    if slot.emulated:
        return [f"{slot.node_id}-{device}" for device in slot.devices]
    (names,) = visible_gpus(slot.devices, environment).values()
    return names.split(",")


def first_environment() -> dict[str, str]:
    """Return the environment that this process was started with: the node agent's.

    Ray writes its own list of GPUs over that of a worker which asks for none.
    """
    try:
        text = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environ)
    pairs = (entry.partition(b"=") for entry in text.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
