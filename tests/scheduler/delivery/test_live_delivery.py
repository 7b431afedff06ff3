"""On a real cluster a job tells who asked, also over the death of the scheduler, and its metrics are one run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

SCRIPT = """
import coadapt
for step in range(3):
    coadapt.report(step=step + 1, of=3, loss=1.0 / (step + 1))
"""


def tell(folder: str) -> dict[str, Any]:
    os.environ.pop("RAY_TMPDIR", None)
    os.environ.pop("RAY_AUTH_MODE", None)
    import psutil
    from coadapt.core.job import JobSpec
    from coadapt.core.notify import Notify
    from coadapt.core.settings import Settings
    from coadapt.core.webhook_settings import WebhookSettings
    from coadapt.deploy import local_cluster

    from tests.support.receiver import Answer, Got, Receiver

    state_dir, job_dir = Path(folder) / "state", Path(folder) / "job"
    job_dir.mkdir()
    (job_dir / "train.py").write_text(SCRIPT)
    held, told = threading.Event(), dict[str, Any]()

    def answer(got: Got, number: int) -> Answer:
        return Answer(204, held=held if got.document["type"] == "job.succeeded" else None)

    settings = Settings(
        state_dir=str(state_dir),
        round_interval_s=2.0,
        webhooks=WebhookSettings(allowed=("127.0.0.1",), answer_s=60.0),
    )
    uri = f"sqlite:///{Path(folder) / 'mlflow.sqlite'}"
    client = local_cluster.up("1x t4:1", settings=settings)
    try:
        record = local_cluster.ClusterRecord.load(state_dir)
        assert record is not None
        with Receiver(answer) as receiver:
            told["secret"] = client.add_webhook("mine", receiver.url, [])
            told["test"] = client.test_webhook("mine", timeout_s=60.0)
            job_id = client.submit(
                JobSpec(
                    name="a",
                    script="train.py",
                    elastic=False,
                    working_dir=str(job_dir),
                    notify=Notify(to=["mine"], events=["started", "succeeded"]),
                    trackers=["mlflow"],
                    env={"MLFLOW_TRACKING_URI": uri},
                )
            )
            told["phase"] = client.wait([job_id], timeout_s=200.0)[job_id].value
            receiver.until(3, timeout_s=60.0)
            (process,) = [p for p in psutil.process_iter(["cmdline"]) if _is(p, "SchedulerService", record.mark)]
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
            held.set()  # it is acknowledged while no scheduler is there
            client.cluster()
            told["after"] = client.test_webhook("mine", timeout_s=60.0)
            receiver.until(4, timeout_s=60.0)  # what was held may be counted first
            told["got"] = [(got.document["type"], got.document["data"].get("job")) for got in receiver.got]
            told["ids"] = [got.id for got in receiver.got]
            told["job"] = job_id
            until_s = time.monotonic() + 60.0
            while (waiting := client.webhooks()[0]["waiting"]) and time.monotonic() < until_s:
                time.sleep(0.2)  # between two looks, up to a limit
            told["waiting"] = waiting
        client.close()
    finally:
        local_cluster.down(state_dir, grace_s=2.0)
    import mlflow

    (run,) = mlflow.MlflowClient(uri).search_runs(["0"])
    told["run"] = (run.info.run_name, run.info.status, run.data.metrics["loss"])
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


def test_a_webhook_is_tried_and_answers(told: dict[str, Any]) -> None:
    assert told["secret"].startswith("whsec_")
    assert told["test"] == ""


def test_a_job_tells_what_its_file_asks_for_once_though_the_scheduler_is_killed_meanwhile(
    told: dict[str, Any],
) -> None:
    assert told["phase"] == "succeeded"
    assert told["after"] == ""
    assert told["got"] == [
        ("webhook.test", None),
        ("job.started", told["job"]),
        ("job.succeeded", told["job"]),
        ("webhook.test", None),
    ]
    assert len(set(told["ids"])) == 4
    assert told["waiting"] == 0


def test_what_it_reported_is_a_run_at_its_tracker(told: dict[str, Any]) -> None:
    name, status, loss = told["run"]
    assert (name, status, loss) == (told["job"], "FINISHED", pytest.approx(1 / 3))
