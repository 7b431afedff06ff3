"""The processes of one cluster that can be killed, by what they do."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
from coadapt.client.cluster_record import ClusterRecord
from coadapt.core.emulated_nodes import EmulatedNode
from coadapt.deploy import local_cluster


class Victims:
    """Processes of the cluster of one state folder.

    Args:
        mark: a part of the paths of its jobs that no other cluster on the machine has.
    """

    def __init__(self, state_dir: str, mark: str) -> None:
        self._state_dir, self._mark = state_dir, mark

    def record(self) -> ClusterRecord:
        """Return the record of the cluster as it is now."""
        found = ClusterRecord.load(self._state_dir)
        assert found is not None, "the cluster has no record"
        return found

    def actors(self, *titles: str) -> list[psutil.Process]:
        """Return actors whose process titles begin so."""
        everyone = _descendants(self.record())
        return [process for title in titles for process in everyone if title_of(process).startswith(title)]

    def training(self) -> list[psutil.Process]:
        """Return training processes of jobs that train, not of profile runs."""
        return [
            process
            for process in _all(trains)
            if variable(process, "COADAPT_MODE") == "train" and self._mark in url_of(process)
        ]

    def templates(self) -> list[psutil.Process]:
        """Return the processes that training processes were forked from."""
        return [found for process in self.training() if (found := _parent(process)) is not None]

    def commands(self, kind: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
        """Return processes of a kind that belong to jobs of the kind `command`."""
        return [process for process in _all(kind) if self._mark in variable(process, "COADAPT_OUTPUT_DIR")]

    def head(self) -> list[psutil.Process]:
        """Return all processes of the head, with what they have started."""
        roots = [p for one in self.record().head if (p := one.alive()) is not None]
        found = list(roots)
        for root in roots:
            with suppress(psutil.Error):
                found += root.children(recursive=True)
        return found

    def writer(self, until_s: float) -> psutil.Process | None:
        """Return a process that is writing a checkpoint: data is there, its manifest is not yet."""
        root = Path(self._state_dir) / "checkpoints"
        writers = {url_of(process): process for process in self.training() if variable(process, "RANK") == "0"}
        while time.monotonic() < until_s:
            for url, process in writers.items():
                names = {path.name for path in Path(url).glob("step-*")} if url.startswith(str(root)) else set()
                stems = Counter(name.split(".")[0] for name in names)
                if any(count == 1 and f"{stem}.pt" in names for stem, count in stems.items()):
                    return process
            time.sleep(0.0005)
        return None

    def kill_node(self, choose: Callable[[list[int]], int]) -> None:
        """Kill the raylet of an emulated node that lives, and bring a like node back."""
        record = self.record()
        i = choose([i for i, node in enumerate(record.nodes) if node.processes[0].alive() is not None])
        process = record.nodes[i].processes[0].alive()
        assert process is not None
        sigkill(process)
        like = EmulatedNode(record.nodes[i].gpu_type, record.nodes[i].gpus)
        more = local_cluster.add_nodes(record, [like])
        replace(record, nodes=(*record.nodes, *more)).save(self._state_dir)


def sigkill(process: psutil.Process) -> bool:
    """Kill a process; return whether it was there."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
        return True
    return False


def trains(process: psutil.Process) -> bool:
    """Return whether a process is one of training."""
    return "coadapt.executor.training.process" in process.cmdline()


def guards(process: psutil.Process) -> bool:
    """Return whether a process is the guard of a command."""
    return any(word.endswith("command_guard.py") for word in process.cmdline()[:5])


def lives(process: psutil.Process) -> bool:
    """Return whether a process has not ended."""
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def title_of(process: psutil.Process) -> str:
    """Return what a process calls itself; "" for one that is gone."""
    with suppress(psutil.Error):
        return str((process.cmdline() or [""])[0])
    return ""


def variable(process: psutil.Process, name: str) -> str:
    """Return a variable of the environment of a process; "": it has none, or it is gone."""
    with suppress(psutil.Error):
        return str(process.environ().get(name, ""))
    return ""


def url_of(process: psutil.Process) -> str:
    """Return where a training process saves checkpoints."""
    return variable(process, "COADAPT_CHECKPOINT_URL")


def _all(kind: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if kind(process):
                found.append(process)
    return found


def _parent(process: psutil.Process) -> psutil.Process | None:
    with suppress(psutil.Error):
        return process.parent()
    return None


def _descendants(record: ClusterRecord) -> list[psutil.Process]:
    """Return every process of our own cluster, and of no other on this machine."""
    found = []
    for recorded in [*record.head, *(p for node in record.nodes for p in node.processes)]:
        root = recorded.alive()
        if root is not None:
            with suppress(psutil.Error):
                found += root.children(recursive=True)
    return found
