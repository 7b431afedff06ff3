"""Jobs whose replicas are several real processes, each of which holds shards of the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from coadapt.executor.processes.replica import free_port, shard_environment
from coadapt.executor.protocol.messages import Ready
from coadapt.executor.rehearsal.group import Member
from torch.distributed import TCPStore

from tests.support.elastic_runs import torchrun_environment
from tests.support.warm_group import WarmGroup
from tests.support.warm_python import Script, run_together

SCRIPT = Path(__file__).with_name("sharded_script.py")


class ShardedGroup(WarmGroup):
    """A job whose replicas are `processes` each."""

    def __init__(self, *args: Any, processes: int = 2, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.processes = processes

    def start_replica(self, processes: int | None = None, ready: bool = True) -> list[Member]:
        """Start the processes of one replica, which find each other at a port of their own."""
        count = processes or self.processes
        port = free_port()
        members = [self.start(1, shard_environment(shard, count, port), ready=False)[0] for shard in range(count)]
        if ready:
            for member in members:
                member.wait(Ready)
        return members

    def join_replicas(self, replicas: Sequence[Sequence[Member]], **how: Any) -> int:
        """Make whole replicas the next group."""
        return self.join([member for replica in replicas for member in replica], **how)


def run_torchrun(out: Path, processes: int) -> None:
    """Run the script in processes such as torchrun starts; 0: by itself."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks = [torchrun_environment(rank, processes, store.port) for rank in range(processes)]
    run_together([Script(SCRIPT, [f"--out={out}"], env) for env in ranks or [{}]])


def run_plain(folder: Path, *args: str) -> dict[str, torch.Tensor]:
    """Run the script without shards and without Coadapt; return its final parameters."""
    folder.mkdir()
    run_together([Script(SCRIPT, [f"--out={folder}", "--plain", *args])])
    return torch.load(folder / "final.pt")
