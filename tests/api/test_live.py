"""The API in its own actor, on a real cluster: it answers at its URL again, whoever is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

ASK = """
import json, sys
from coadapt.client.client import connect
rows = connect(state_dir=sys.argv[1]).list()
heavy = sorted({"ray", "torch", "numpy", "sqlalchemy", "fastapi"} & set(sys.modules))
print(json.dumps({"rows": len(rows), "heavy": heavy}))
"""


def tell(folder: str) -> dict[str, Any]:
    os.environ.pop("RAY_TMPDIR", None)
    os.environ.pop("RAY_AUTH_MODE", None)
    import httpx
    import psutil
    from coadapt.client.client import AccessError, connect
    from coadapt.core.identity import Role
    from coadapt.core.job import JobSpec
    from coadapt.core.settings import Settings
    from coadapt.deploy import local_cluster

    state_dir, job_dir = Path(folder) / "state", Path(folder) / "job"
    job_dir.mkdir()
    (job_dir / "run.sh").write_text("echo done\n")
    spec = JobSpec(name="a", command=["sh", "run.sh"], elastic=False, working_dir=str(job_dir))
    told: dict[str, Any] = {}
    client = local_cluster.up("1x t4:1", settings=Settings(state_dir=str(state_dir), round_interval_s=2.0))
    try:
        record = local_cluster.ClusterRecord.load(state_dir)
        assert record is not None
        told["mode"] = stat.S_IMODE(Path(record.api_token_path).stat().st_mode)
        told["me"] = client.me()["role"]
        with httpx.stream(
            "GET",
            f"{record.url}/v1/events",
            headers={"Authorization": f"Bearer {record.token()}"},
            timeout=60.0,
        ) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": connected"
            first = client.submit(spec)
            data = next(line for line in lines if line.startswith("data: "))
            told["event"] = json.loads(data.removeprefix("data: "))
        told["first"] = first
        token = ""
        client.put_user("bob", Role.USER)
        token = client.new_token("bob")["token"]
        bob = connect(record.url, token=token)
        told["bob"] = [row["id"] for row in bob.list()]
        try:
            bob.users()
        except AccessError as error:
            told["refused"] = str(error)

        def killed(name: str) -> float:
            """Kill an actor's process, and return how long the next answer took."""
            (process,) = [p for p in psutil.process_iter(["cmdline"]) if _is(p, name, record.mark)]
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
            began_s = time.monotonic()
            client.cluster()
            return time.monotonic() - began_s

        told["api back"] = killed("ApiActor")
        told["scheduler back"] = killed("SchedulerService")
        told["bob after"] = connect(record.url, token=token).me()
        told["ended"] = client.wait([first], timeout_s=120.0)[first].value
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(state_dir)], capture_output=True, text=True, timeout=60, check=True
        )
        told["light"] = json.loads(done.stdout)
        client.close()
    finally:
        local_cluster.down(state_dir, grace_s=2.0)
    return told


def _is(process: Any, name: str, mark: str) -> bool:
    import psutil

    try:
        mine = process.environ().get("COADAPT_CLUSTER_ID", "").startswith(mark)
        return mine and any(name in word for word in process.cmdline()[:1])
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(tell, (str(tmp_path_factory.mktemp("story")),)).get(timeout=380)


def test_who_starts_a_cluster_operates_it_and_nobody_else_reads_the_token(told: dict[str, Any]) -> None:
    assert (told["me"], oct(told["mode"])) == ("operator", "0o600")


def test_an_event_reaches_its_reader_as_it_happens(told: dict[str, Any]) -> None:
    assert (told["event"]["job_id"], told["event"]["kind"]) == (told["first"], "submitted")


def test_a_user_reaches_only_its_own(told: dict[str, Any]) -> None:
    assert told["bob"] == []
    assert told["refused"] == "bob has the role user, and this needs operator"


def test_whoever_is_killed_the_api_answers_at_its_url_and_knows_its_users(told: dict[str, Any]) -> None:
    assert told["api back"] < 60
    assert told["scheduler back"] < 60
    assert (told["bob after"]["user"], told["bob after"]["role"]) == ("bob", "user")
    assert told["ended"] == "succeeded"


def test_a_command_loads_nothing_heavy(told: dict[str, Any]) -> None:
    assert told["light"] == {"rows": 1, "heavy": []}
