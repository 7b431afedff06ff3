"""The environment of each process of a command: torchrun's variables and ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...core.doors import Processes
from ..protocol.command_events import Begin
from ..protocol.messages import OUTPUT_DIR, STATUS_FILE

RESTARTS = "COADAPT_RESTARTS"


def rank_environment(
    order: Begin, local_rank: int, local_world_size: int, processes: Processes, gpus: int
) -> dict[str, str]:
    """Return what tells a process which one it is.

    `processes`: with one per GPU they are torchrun's own variables. With one per node it is told by torchrun's
    PET_ variables how many processes to start, so that `torchrun train.py` is right as it stands.
    `gpus`: of the job on this node.
    """
    meeting = {"MASTER_ADDR": order.master_host, "MASTER_PORT": str(order.master_port)}
    if processes is Processes.NODE:
        return {
            **meeting,
            "NODE_RANK": str(order.node_rank),
            "NNODES": str(order.nodes),
            "PET_NNODES": str(order.nodes),
            "PET_NODE_RANK": str(order.node_rank),
            "PET_NPROC_PER_NODE": str(gpus),
            "PET_MASTER_ADDR": order.master_host,
            "PET_MASTER_PORT": str(order.master_port),
        }
    return {
        **meeting,
        "RANK": str(order.first_rank + local_rank),
        "WORLD_SIZE": str(order.world_size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_world_size),
        "GROUP_RANK": str(order.node_rank),
        "GROUP_WORLD_SIZE": str(order.nodes),
        "ROLE_RANK": str(order.first_rank + local_rank),
        "ROLE_WORLD_SIZE": str(order.world_size),
    }


def common_environment(
    order: Begin, earlier: int, status_file: str, endpoint: Mapping[str, str]
) -> dict[str, str]:
    """Return what all processes are told: earlier starts, and where they may say how far they are.

    `earlier`: starts that the order does not count, as an executor was lost since.
    """
    told = {RESTARTS: str(earlier + order.generation - 1), **endpoint}
    return {**told, STATUS_FILE: status_file} if status_file else told


def with_output_dir(word: str, folder: str) -> str:
    """Return a word of a command with the output folder in place of its variable: no shell is there to do so."""
    return re.sub(rf"\$(?:{OUTPUT_DIR}\b|\{{{OUTPUT_DIR}\}})", lambda _: folder, word)
