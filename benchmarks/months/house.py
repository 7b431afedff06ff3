"""A real Ray cluster with the real API, around a scheduler whose executors are stubs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from coadapt.client.client import Client
from coadapt.client.cluster_record import ClusterRecord
from coadapt.client.package import pack
from coadapt.core.emulated_nodes import parse
from coadapt.core.service_names import NAMESPACE, SERVICE_NAME
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.deploy.ray_connection import connected_ray, leave_ray
from coadapt.deploy.start_service import start_service

from .clients import Found, Plan

PATIENCE_S = 300.0
API = "ray::ApiActor"


@dataclass
class House:
    """What runs, for measuring."""

    settings: Settings
    record: ClusterRecord
    client: Client
    ray: Any

    @property
    def service(self) -> Any:
        """Return the scheduler's actor of now."""
        return self.ray.get_actor(SERVICE_NAME, namespace=NAMESPACE)

    def ask(self, method: str, *arguments: object) -> Any:
        """Return what the scheduler answers."""
        return self.ray.get(getattr(self.service, method).remote(*arguments), timeout=PATIENCE_S)

    def until_running(self, jobs: int) -> None:
        """Wait until so many jobs train. Raises: TimeoutError."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self.ask("running") < jobs:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{self.ask('running')} of {jobs} jobs run after {PATIENCE_S:.0f} s")
            time.sleep(0.5)  # nobody tells how many there are

    def put_package(self, folder: Path) -> str:
        """Put the package of a script, and return its name."""
        folder.mkdir(exist_ok=True)
        (folder / "train.py").write_text("import coadapt\n")
        package = pack(folder, 1)
        self.client._api.put(f"/v1/packages/{package.name}", package.data)
        return package.name

    def submit(self, client: Client, spec: Mapping[str, Any], package: str) -> str:
        """Submit a job with a package that was put, through some client; return its id."""
        body = {"spec": spec, "package": package}
        return str(client._api.post("/v1/jobs", body, key=uuid.uuid4().hex)["id"])

    def load(self, plan: Plan) -> Found:
        """Have two other processes be many clients, and return what they found.

        Those that ask now and then are apart from those that read all the time, whose own work would delay them.
        """
        asking = replace(plan, streams=0, logs=(), pages=0)
        reading = replace(plan, submits_per_s=0.0, lists_per_s=0.0)
        with ThreadPoolExecutor() as pool:
            one, other = pool.map(self._clients, (asking, reading))
        failed = {**one.failed, **other.failed}
        return replace(other, submit_s=one.submit_s, list_s=one.list_s, submitted=one.submitted, failed=failed)

    def _clients(self, plan: Plan) -> Found:
        words = [sys.executable, "-m", "benchmarks.months.clients", self.record.url, json.dumps(asdict(plan))]
        done = subprocess.run(words, input=self.record.token(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the clients failed: {done.stderr[-2000:]}")
        return Found(**json.loads(done.stdout.splitlines()[-1]))

    def api(self) -> psutil.Process:
        """Return the process of the API."""
        (found,) = processes(API, self.record.mark)
        return found


def processes(title: str, mark: str) -> list[psutil.Process]:
    """Return the processes of a cluster whose command begins so."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if " ".join(process.cmdline()).startswith(title) and any(
                mark in value for value in process.environ().values()
            ):
                found.append(process)
    return found


def pss_mib(process: psutil.Process) -> float:
    """Return the memory of a process; pages that it shares are divided."""
    return float(process.memory_full_info().pss) / 2**20


def uss_mib(process: psutil.Process) -> float:
    """Return the memory that only a process has. Unlike PSS it does not change when others end."""
    return float(process.memory_full_info().uss) / 2**20


@contextmanager
def house(
    settings: Settings, nodes: str, lasts_s: float | None = None, profile_s: float = 30.0
) -> Iterator[House]:
    """Yield it over the store that the settings name.

    Args:
        nodes: the emulated nodes.
        lasts_s: how long a job trains; None: for ever. profile_s: how long it is measured on a GPU type.
    """
    Path(settings.state_dir).mkdir(parents=True, exist_ok=True)
    record = local_cluster.start_cluster(parse(nodes), Path(settings.state_dir))
    try:
        record.save(settings.state_dir)
        ray = connected_ray(record)  # before anything loads Ray, which reads its token once
        from .stub_executors import STUBS_NAME, StubExecutors
        from .timed_service import TimedService

        ray.remote(StubExecutors).options(
            name=STUBS_NAME,
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=0,
            max_restarts=-1,
            max_concurrency=16,
            label_selector={"role": "head"},
        ).remote(settings.state_dir, lasts_s, profile_s)
        record = start_service(record, settings, scheduler=TimedService)
        record.save(settings.state_dir)
        with_client = Client.connect(record)
        try:
            yield House(settings, record, with_client, ray)
        finally:
            with_client.close()
    finally:
        leave_ray()
        local_cluster.end_processes(ClusterRecord.load(settings.state_dir) or record)  # it may have more nodes


def settings_in(folder: str | Path, **more: Any) -> Settings:
    """Return settings of a service in a folder of its own."""
    return Settings(state_dir=str(folder), **more)


@contextmanager
def own_folder() -> Iterator[Path]:
    """Yield a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="coadapt-months-") as folder:
        yield Path(folder)
