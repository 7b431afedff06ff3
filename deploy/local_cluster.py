"""`coadapt up`: a cluster of emulated nodes on one machine, or the service on a cluster that runs already.

Nodes are real Ray nodes (one raylet each, through the `ray start` command) that say they have GPUs; the
cluster outlives the command. What was started is recorded in `STATE_DIR/cluster.json`, and `down` ends
exactly that. Only this user can talk to the cluster: it takes a token that lies beside the record.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ..client.cluster_record import ClusterRecord, LocalClusterError, NodeProcess, Process, record_path
from ..core.emulated_nodes import EmulatedNode, parse
from ..core.isolation import Isolation
from ..core.ray_noise import is_noise
from ..core.settings import Settings
from .ray_connection import address_of, leave_ray
from .start_service import end_service, is_served, start_service

if TYPE_CHECKING:
    from ..client.client import Client

MARK = "COADAPT_CLUSTER_ID"
# A dead node is noticed in about 2 s instead of Ray's 16 s: everything is on one machine.
HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 4,
}
RAYS_OWN = ("RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_ADDRESS", "RAY_NAMESPACE", "CUDA_VISIBLE_DEVICES")
OBJECT_STORE_BYTES = 80 * 2**20
MOST_PASSES = 3
START_TIMEOUT_S = 240.0  # four nodes start at once, on machines that have other work, too


def up(
    emulate: str | None = None,
    *,
    address: str | None = None,
    settings: Settings | None = None,
    tell: Callable[[str], None] = lambda text: None,
    rounds: bool = True,
) -> Client:
    """Start a cluster of emulated nodes, or with `address` only the service. Return a connected client.

    Args:
        tell: called with a line on what is waited for, if that takes long.
        rounds: whether to wait until rounds run. Else the service answers while the solver's kernels are compiled.

    Raises: EmulationError, LocalClusterError (one runs already, Ray did not start), ValueError for bad settings.
    """
    from ..client.client import Client

    if (emulate is None) == (address is None):
        raise LocalClusterError("up: give either emulate or address")
    settings = settings or Settings()
    nodes = parse(emulate) if emulate is not None else ()
    running = ClusterRecord.load(settings.state_dir)
    if running is not None and running.started and running.alive:
        return _serve_again(running, nodes, settings, tell, rounds)
    if running is not None and running.started:
        end_processes(running)  # what a cluster whose head died has left behind
    if emulate is not None:
        _ray_command()  # before anything is said or made
    _check_isolation(settings, emulate is None, tell)
    if why := settings.api.missing():
        raise LocalClusterError(why)
    if address is not None:
        mode = os.environ.get("RAY_AUTH_MODE", "disabled")
        record = ClusterRecord(address, auth_mode=mode, token_path=os.environ.get("RAY_AUTH_TOKEN_PATH", ""))
        # "auto" means another cluster as soon as another one starts here, or in a shell with other variables.
        record = replace(record, address=address_of(record))
    else:
        tell(f"starting Ray with {_nodes(len(nodes))}")
        record = start_cluster(nodes, Path(settings.state_dir))
    record.save(settings.state_dir)
    try:
        record = start_service(record, settings, tell, rounds)
        record.save(settings.state_dir)
        return Client.connect(record)
    except BaseException:
        if record.started:
            end_processes(record)
            record_path(settings.state_dir).unlink(missing_ok=True)
        raise


def _serve_again(
    running: ClusterRecord,
    nodes: Sequence[EmulatedNode],
    settings: Settings,
    tell: Callable[[str], None],
    rounds: bool,
) -> Client:
    """Start the service on a cluster that runs without one, as after `coadapt down --keep-jobs`.

    Raises: LocalClusterError if it has one, or was asked to have other nodes.
    """
    from ..client.client import Client

    many = _nodes(len(running.nodes))
    there = [as_described(node) for node in running.nodes]
    if nodes and there != list(nodes):
        raise LocalClusterError(f"a cluster of {many} runs already, with other nodes; end it with `coadapt down`")
    if is_served(running):
        raise LocalClusterError(f"a cluster of {many} runs already; end it with `coadapt down`")
    tell(f"starting the scheduler on the cluster of {many} that runs on")
    record = start_service(running, settings, tell, rounds)
    record.save(settings.state_dir)
    return Client.connect(record)


def _check_isolation(settings: Settings, on_rays: bool, tell: Callable[[str], None]) -> None:
    """Say aloud that jobs are not set apart. Raises: LocalClusterError where they cannot be as asked for."""
    from ..executor.sandbox.line import problem
    from ..scheduler.care.private_folders import unreachable

    if settings.isolation is Isolation.NONE:
        tell("isolation: none: jobs run as you and reach all that you reach; `up --isolation` sets them apart")
        return
    mode = os.environ.get("RAY_AUTH_MODE") or ("disabled" if on_rays else "token")
    if mode != "token":
        raise LocalClusterError(
            f"isolation: {settings.isolation} needs a Ray cluster that takes a token, or jobs talk to it as you"
            " do; start Ray with RAY_AUTH_MODE=token"
        )
    if why := problem(settings.isolation) or unreachable(settings):
        raise LocalClusterError(why)


def down(
    state_dir: str | Path | None = None,
    grace_s: float = 60.0,
    *,
    keep_jobs: bool = False,
    sure: Callable[[Mapping[str, int]], None] = lambda others: None,
    unserved: Callable[[], None] = lambda: None,
) -> bool:
    """End what `up` started: jobs save and stop first. False when nothing was running.

    Args:
        grace_s: how long jobs may take to save.
        keep_jobs: whether jobs train on, and only the scheduler ends.
        sure: called with the active jobs of other users where there are some; it may raise.
        unserved: called where an earlier `down` let jobs train on, who cannot save now; it may raise.
    """
    from ..client.client import NoClusterError

    record = ClusterRecord.load(state_dir)
    if record is None:
        return False
    if keep_jobs:
        end_service(record, grace_s, keep_jobs=True)
        replace(record, url="").save(state_dir)
        return True
    if record.alive:
        if not record.url:
            unserved()
        with suppress(NoClusterError):
            end_service(record, grace_s, sure=sure)
    if record.started:
        end_processes(record)
    record_path(state_dir).unlink(missing_ok=True)
    return True


@contextmanager
def cluster(emulate: str, *, settings: Settings | None = None) -> Iterator[Client]:
    """Yield a cluster of emulated nodes for a `with` block; without settings, in a folder of its own."""
    own = tempfile.mkdtemp(prefix="coadapt-") if settings is None else None
    settings = settings or Settings(state_dir=str(own), round_interval_s=5.0, restart_cost_s=5.0)
    try:
        client = up(emulate, settings=settings)
        try:
            yield client
        finally:
            client.close()
            leave_ray()
            record = ClusterRecord.load(settings.state_dir)
            if record is not None:
                end_processes(record)
                record_path(settings.state_dir).unlink(missing_ok=True)
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)


def _nodes(count: int) -> str:
    return f"{count} emulated node{'s' * (count > 1)}"


# --- processes --------------------------------------------------------------------------------------------


def start_cluster(nodes: Sequence[EmulatedNode], state_dir: Path) -> ClusterRecord:
    """Start the head first, then all nodes at once; everything is ended again if one does not start."""
    state_dir.mkdir(parents=True, exist_ok=True)
    # Unix sockets have short names, so Ray's files cannot lie below an arbitrary state directory.
    temp_dir = Path(tempfile.mkdtemp(prefix="coadapt-ray-"))
    mode, token_path = _auth(state_dir)
    record = ClusterRecord(
        "", auth_mode=mode, token_path=token_path, temp_dir=str(temp_dir), mark=secrets.token_hex(8), started=True
    )
    try:
        head, address = _start_head(record)
        record = replace(record, head=head, address=address)
        return replace(record, nodes=tuple(add_nodes(record, nodes)))
    except BaseException:
        end_processes(record)
        raise


def _auth(state_dir: Path) -> tuple[str, str]:
    """Return (mode, token file): the caller's choice in RAY_AUTH_MODE, else a token only this user can read."""
    if os.environ.get("RAY_AUTH_MODE"):
        return os.environ["RAY_AUTH_MODE"], os.environ.get("RAY_AUTH_TOKEN_PATH", "")
    path = state_dir / "token"
    if not path.exists():
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    return "token", str(path)


def _start_head(record: ClusterRecord) -> tuple[tuple[Process, ...], str]:
    folder = Path(record.temp_dir) / "h"
    command = [
        "--head",
        "--port=0",
        "--num-gpus=0",
        "--include-dashboard=false",
        "--labels=role=head",
        f"--system-config={json.dumps(HEALTH)}",
        f"--ray-client-server-port={_free_port()}",
    ]
    log = _run([_ray_start(record, folder, command)], record)[0]
    address_file = folder / "ray" / "ray_current_cluster"
    if not address_file.exists():
        raise LocalClusterError(f"Ray's head did not start: {_last_line(log)}")
    return _marked(f"{record.mark}-h"), address_file.read_text().strip()


def add_nodes(record: ClusterRecord, nodes: Sequence[EmulatedNode]) -> list[NodeProcess]:
    """Start more emulated nodes on a running cluster, all at once. The caller keeps the record."""
    first = len(record.nodes)
    return start_nodes(record, {first + i: node for i, node in enumerate(nodes)})


def start_nodes(record: ClusterRecord, nodes: Mapping[int, EmulatedNode]) -> list[NodeProcess]:
    """Start emulated nodes, by their places in the record, all at once. The caller keeps the record."""
    commands, folders = [], []
    for i, node in nodes.items():
        # Emulated nodes share a host, so that its name would not tell them apart.
        labels = f"coadapt.io/gpu-type={node.gpu_type},coadapt.io/emulated=true"
        labels += f",coadapt.io/machine={machine_name(node.gpu_type, i)}"
        if node.pool:
            labels += f",coadapt.io/pool={node.pool}"
        if node.cpus:
            labels += f",coadapt.io/cpus={node.cpus:g},coadapt.io/memory-gib={node.memory_gib:g}"
        folder = _node_folder(record, i)
        folders.append(folder)
        # Without its own folder a node takes the head's, and nodes that start together race for socket names.
        options = [f"--address={record.address}", f"--temp-dir={folder}", f"--num-gpus={node.gpus}"]
        commands.append(_ray_start(record, folder, [*options, f"--labels={labels}"]))
    logs = _run(commands, record)
    started = []
    for node, folder, log in zip(nodes.values(), folders, logs, strict=True):
        processes = _marked(f"{record.mark}-{folder.name}")
        if not processes:
            raise LocalClusterError(f"emulated node {node.gpu_type}:{node.gpus} did not start: {_last_line(log)}")
        started.append(NodeProcess(node.gpu_type, node.gpus, processes, node.pool, node.cpus, node.memory_gib))
    return started


def as_described(node: NodeProcess) -> EmulatedNode:
    """Return what a node of the record was started as."""
    return EmulatedNode(node.gpu_type, node.gpus, node.pool, node.cpus, node.memory_gib)


def machine_name(gpu_type: str, index: int) -> str:
    """Return the machine name of an emulated node, by its place in the cluster's record."""
    return f"{gpu_type}-{index}"


def _node_folder(record: ClusterRecord, index: int) -> Path:
    """Return a folder for Ray's files of a node that starts; no earlier life of a node has used it."""
    names = chain([f"n{index}"], (f"n{index}-{life}" for life in count(1)))
    return next(path for name in names if not (path := Path(record.temp_dir) / name).exists())


def raylets(record: ClusterRecord, index: int) -> list[psutil.Process]:
    """Return the raylets of a node that live, of all its lives: none while it sleeps, and one if it is awake."""
    found = []
    for name in _folders(record):
        if name.split("-")[0] == f"n{index}":
            found += [
                p for known in _marked(f"{record.mark}-{name}") if (p := known.alive()) and p.name() == "raylet"
            ]
    return found


@dataclass(frozen=True)
class _Command:
    args: list[str]
    env: dict[str, str]
    log: Path


def _ray_start(record: ClusterRecord, folder: Path, options: Sequence[str]) -> _Command:
    folder.mkdir(parents=True, exist_ok=True)
    # A process of Ray, as the service, has variables that are only for itself.
    own = {name: value for name, value in os.environ.items() if name not in RAYS_OWN}
    env = own | record.environment()
    env |= {
        "RAY_TMPDIR": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        MARK: f"{record.mark}-{folder.name}",
        "PYTHONUNBUFFERED": "1",
    }
    # By default Ray's workers get what others leave: beside a busy program nothing would train.
    env.setdefault("RAY_worker_niceness", "0")
    # Few logical CPUs: Ray starts that many idle workers ahead, and leases count GPUs.
    common = [
        "--num-cpus=1",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        "--disable-usage-stats",
        "--include-log-monitor=false",
    ]
    return _Command([_ray_command(), "start", *options, *common], env, folder / "start.log")


def _ray_command() -> str:
    """Return Ray's own command, of the Python that runs this. Raises: LocalClusterError where there is none."""
    python = Path(sys.executable)
    command = python.with_name("ray")
    if not os.access(command, os.X_OK):
        raise LocalClusterError(
            f"there is no `ray` command in {python.parent}, beside the Python that runs coadapt; install Ray"
            f" there: {python} -m pip install 'ray[default]'"
        )
    return str(command)


def _run(commands: Sequence[_Command], record: ClusterRecord) -> list[Path]:
    """Run the commands side by side and wait for all of them."""
    running = []
    for command in commands:
        with command.log.open("w") as log:
            running.append(
                subprocess.Popen(
                    command.args,
                    env=command.env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
    deadline = time.monotonic() + START_TIMEOUT_S
    for process, command in zip(running, commands, strict=True):
        try:
            code = process.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            raise LocalClusterError(f"Ray did not start in {START_TIMEOUT_S:.0f} s; see {command.log}") from None
        if code:
            raise LocalClusterError(f"Ray did not start: {_last_line(command.log)}")
    return [command.log for command in commands]


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if not is_noise(line.encode())]
    return told[-1] if told else "no output"


def _free_port() -> int:
    """Return a port for Ray's client server; two clusters on a machine must not share it."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _marked(mark: str) -> tuple[Process, ...]:
    """Return processes with our mark in their environment, raylet first. (Its agents are its children.)"""
    found = []
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found.append((process.info["name"] != "raylet", process.pid, process.create_time()))
    return tuple(Process(pid, created) for _, pid, created in sorted(found))


def end_processes(record: ClusterRecord) -> None:
    """End the recorded processes, what carries the mark and all their descendants; nothing else."""
    for _ in range(MOST_PASSES):  # a node that was being woken may have started a process meanwhile
        roots = [p for node in record.nodes for p in node.processes] + list(record.head)
        roots += [p for name in _folders(record) for p in _marked(f"{record.mark}-{name}")]
        everyone: dict[int, psutil.Process] = {}
        for root in roots:
            process = root.alive()
            if process is not None:
                with suppress(psutil.NoSuchProcess):
                    everyone |= {child.pid: child for child in process.children(recursive=True)}
                everyone[process.pid] = process
        if not everyone:
            break
        for process in everyone.values():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(list(everyone.values()), timeout=10)
    if record.temp_dir:
        shutil.rmtree(record.temp_dir, ignore_errors=True)


def _folders(record: ClusterRecord) -> list[str]:
    folder = Path(record.temp_dir)
    return sorted(path.name for path in folder.iterdir()) if record.temp_dir and folder.is_dir() else []


__all__ = [
    "ClusterRecord",
    "LocalClusterError",
    "add_nodes",
    "cluster",
    "down",
    "end_processes",
    "raylets",
    "start_nodes",
    "up",
]
