"""Powers emulated nodes off and on: their raylets really end and start. Power's adapter `emulated` runs it.

    python -m coadapt.deploy.emulated_power sleep|wake|state MACHINE --state-dir FOLDER

The record of the cluster is kept right, so that `coadapt down` ends everything.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from ..client.cluster_record import ClusterRecord, LocalClusterError, NodeProcess, Process, record_path
from .local_cluster import as_described, machine_name, raylets, start_nodes

COMMAND_MARK = "COADAPT_POWER"  # of `scheduler/power/commands.py`
END_S = 10.0  # for a raylet to end by itself


def main(words: list[str]) -> int:
    """Do one verb to one machine; errors are one line, and status 1."""
    parser = argparse.ArgumentParser(prog="emulated_power", description="Power an emulated node off or on.")
    parser.add_argument("verb", choices=("sleep", "wake", "state"))
    parser.add_argument("machine")
    parser.add_argument("--state-dir", required=True)
    given = parser.parse_args(words)
    os.environ.pop(COMMAND_MARK, None)  # a node that is started here outlives this command
    verbs = {"sleep": sleep, "wake": wake, "state": state}
    try:
        print(verbs[given.verb](given.state_dir, given.machine))
    except (LocalClusterError, psutil.Error, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def state(state_dir: str, machine: str) -> str:
    """Return "on" or "off". Raises: LocalClusterError for an unknown machine."""
    record, index = _find(state_dir, machine)
    return "on" if raylets(record, index) else "off"


def sleep(state_dir: str, machine: str) -> str:
    """End the node's raylet, with which its workers end. Raises: as `state` does."""
    with _alone(state_dir, machine):
        record, index = _find(state_dir, machine)
        _end(raylets(record, index))
        _keep(state_dir, record, index, ())
    return "off"


def wake(state_dir: str, machine: str) -> str:
    """Start the node's raylet, unless it runs. Raises: LocalClusterError."""
    with _alone(state_dir, machine):
        record, index = _find(state_dir, machine)
        if raylets(record, index):
            return "on"
        node = record.nodes[index]
        (started,) = start_nodes(record, {index: as_described(node)})
        try:
            _keep(state_dir, record, index, started.processes)
        except LocalClusterError:
            _end(raylets(record, index))
            raise
    return "on"


def _find(state_dir: str, machine: str) -> tuple[ClusterRecord, int]:
    record = ClusterRecord.load(state_dir)
    nodes = record.nodes if record is not None else ()
    for index, node in enumerate(nodes):
        if record is not None and machine_name(node.gpu_type, index) == machine:
            return record, index
    raise LocalClusterError(f"{machine} is no emulated machine of the cluster in {state_dir}")


def _keep(state_dir: str, known: ClusterRecord, index: int, processes: tuple[Process, ...]) -> None:
    """Write the node's processes into the record. Raises: LocalClusterError if the cluster has ended meanwhile."""
    with _locked(Path(state_dir) / "cluster.lock"):
        record = ClusterRecord.load(state_dir)
        if record is None or record.mark != known.mark:
            raise LocalClusterError("the cluster has ended meanwhile")
        nodes: list[NodeProcess] = list(record.nodes)
        nodes[index] = replace(nodes[index], processes=processes)
        replace(record, nodes=tuple(nodes)).save(state_dir)


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        process.terminate()
    for process in psutil.wait_procs(processes, timeout=END_S)[1]:
        process.kill()
    psutil.wait_procs(processes, timeout=END_S)


@contextmanager
def _alone(state_dir: str, machine: str) -> Iterator[None]:
    """Do one thing to a machine at a time, also if a killed service's command still runs."""
    if not record_path(state_dir).exists():
        raise LocalClusterError(f"no cluster is recorded in {state_dir}")
    with _locked(Path(state_dir) / f"power-{machine.replace('/', '_')}.lock"):
        yield


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
