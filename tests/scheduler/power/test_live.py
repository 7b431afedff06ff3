"""Emulated machines on a real cluster: raylets end and start, a job wakes its machine, and nothing is left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

# A cluster in a process of its own, and three starts of nodes: a minute, several on a busy machine.
pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]
SCRIPT = Path(__file__).parents[2] / "support" / "elastic_script.py"


def story(folder: str) -> dict[str, Any]:
    os.environ.pop("RAY_TMPDIR", None)
    import psutil
    from coadapt.client.client import connect
    from coadapt.core.job import JobSpec, ResourceRequest
    from coadapt.core.power_settings import PowerSettings
    from coadapt.core.settings import Settings
    from coadapt.deploy import local_cluster

    from tests.support.power_service import advised

    state_dir, out = Path(folder) / "state", Path(folder) / "out"
    out.mkdir()
    power = PowerSettings(adapter="emulated", boot_s=300, wake_limit_s=200, idle_watts=800)
    settings = Settings(state_dir=str(state_dir), round_interval_s=1.0, restart_cost_s=0.1, power=power)
    spec = JobSpec(
        name="late",
        script=SCRIPT.name,
        args=["--out", str(out), "--epochs", "2"],
        working_dir=str(SCRIPT.parent),
        resources=ResourceRequest(max_gpus=1, gpu_types=["a100"]),
    )
    with advised():
        client = local_cluster.up("1x a100:1, 1x t4:1", settings=settings)
    record = local_cluster.ClusterRecord.load(state_dir)
    assert record is not None

    def states() -> dict[str, str]:
        return {row["machine"]: row["state"] for row in client.machines()}

    def until(accept: Callable[[], bool], limit_s: float = 120.0) -> bool:
        deadline = time.monotonic() + limit_s
        while not (accepted := accept()) and time.monotonic() < deadline:
            time.sleep(0.1)  # between two questions to the service, up to a limit
        return accepted

    try:
        found: dict[str, Any] = {"slept": until(lambda: set(states().values()) == {"asleep"})}
        found["raylets"] = [len(local_cluster.raylets(record, i)) for i in range(2)]
        (actor,) = [p for p in psutil.process_iter(["cmdline"]) if _is_service(p, record.mark)]
        actor.send_signal(signal.SIGKILL)
        found["after a kill"] = states()
        found["refused"] = client.check(spec)["refused"]
        job = client.submit(spec)
        told: list[tuple[str | None, str]] = []

        def ended() -> bool:
            row = client.describe(job)
            if (row["wait_reason"], row["reason"]) not in told:
                told.append((row["wait_reason"], row["reason"]))
            return row["finished_s"] is not None

        until(ended, 200.0)
        found["told"], found["phase"], found["t4"] = told, client.describe(job)["phase"], states()["t4-1"]
        found["asleep again"] = until(lambda: states()["a100-0"] == "asleep")
        found["saved_kwh"] = client.cluster()["saved_kwh"]
        client.close()
        connect(state_dir=state_dir).close()
    finally:
        local_cluster.down(state_dir)
    found["left"] = [p.pid for p in psutil.process_iter() if _has_mark(p, record.mark)]
    return found


def _is_service(process: Any, mark: str) -> bool:
    command = process.info["cmdline"]
    return bool(command) and command[0].startswith("ray::AdvisedService") and _has_mark(process, mark)


def _has_mark(process: Any, mark: str) -> bool:
    with suppress(Exception):
        return mark in process.environ().get("COADAPT_CLUSTER_ID", "")
    return False


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(story, (str(tmp_path_factory.mktemp("power")),))


def test_idle_machines_fall_asleep_and_their_raylets_really_end(told: dict[str, Any]) -> None:
    assert told["slept"]
    assert told["raylets"] == [0, 0]


def test_a_killed_service_still_knows_who_sleeps(told: dict[str, Any]) -> None:
    assert set(told["after a kill"].values()) == {"asleep"}


def test_a_job_whose_gpu_type_is_all_asleep_is_accepted_told_that_its_node_wakes_and_runs(
    told: dict[str, Any],
) -> None:
    assert (told["refused"], told["phase"]) == ([], "succeeded")
    assert ("node_asleep", "its node wakes, about 5 min") in told["told"]
    assert "no_gpu_type" not in [code for code, _ in told["told"]]
    assert told["t4"] == "asleep", "nobody needed it"


def test_when_work_ends_its_machine_falls_asleep_again_and_the_saving_is_told(told: dict[str, Any]) -> None:
    assert told["asleep again"]
    assert told["saved_kwh"] > 0


def test_down_ends_every_process_also_of_nodes_that_were_woken(told: dict[str, Any]) -> None:
    assert told["left"] == []
