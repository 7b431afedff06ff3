"""One real job is paused, resumed, cancelled, resumed and forked, and no sample is lost or repeated."""

from __future__ import annotations

import io
import json
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

EPOCHS = 30
SCRIPT = """
import json, sys
import torch, coadapt
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Seen:
    counts = torch.zeros(256, dtype=torch.long)
    def state_dict(self):
        return {"counts": self.counts.clone()}
    def load_state_dict(self, state):
        self.counts = state["counts"].clone()

epochs, lr, width = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
x = torch.randn(256, 8)
model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
seen = Seen()
loader = DataLoader(TensorDataset(torch.arange(256), x, (x.sum(1) > 0).long()), batch_size=16, shuffle=True)
model, optimizer, loader, seen = coadapt.prepare(model, optimizer, loader, seen)
for epoch in coadapt.epochs(epochs):
    for index, a, b in loader:
        loss = nn.functional.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.counts[index] += 1
    coadapt.report(loss=loss.item())
    print("epoch", epoch, "lr", optimizer.param_groups[0]["lr"], flush=True)
(coadapt.output_dir() / "seen.json").write_text(json.dumps(seen.counts.tolist()))
"""


# A program that saves on SIGTERM, and goes on from what it saved.
COUNTING = """
import os, signal, sys, time
from pathlib import Path
saved = Path(os.environ["COADAPT_OUTPUT_DIR"]) / "count.txt"
count = int(saved.read_text()) if saved.exists() else 0
print("from", count, flush=True)
print("token", os.environ["TOKEN"][::-1], flush=True)  # so that its log does not hold it
def save(*_):
    saved.write_text(str(count))
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
while count < 60:
    count += 1
    print("count", count, flush=True)
    time.sleep(0.1)
"""


SECRET = "a-value-of-a-secret"


def twice(value: int) -> None:
    print("twice", math.prod([2, value]), flush=True)


def tell(folder: str) -> dict[str, Any]:
    """Collect everything that the tests below want to know, from one cluster."""
    os.environ.pop("RAY_TMPDIR", None)
    os.environ.pop("RAY_AUTH_MODE", None)
    import coadapt
    import psutil
    from coadapt.cli import main
    from coadapt.client.command_line import spec_of
    from coadapt.core.errors import JobStateError
    from coadapt.core.job import Emulation, JobSpec, ResourceRequest
    from coadapt.core.settings import Settings
    from coadapt.deploy import local_cluster

    state_dir, job_dir = Path(folder) / "state", Path(folder) / "job"
    job_dir.mkdir()
    (job_dir / "train.py").write_text(SCRIPT)
    settings = Settings(state_dir=str(state_dir), round_interval_s=3.0, restart_cost_s=5.0)

    def spec(name: str, *args: str) -> JobSpec:
        return JobSpec(
            name=name,
            script="train.py",
            args=list(args),
            working_dir=str(job_dir),
            resources=ResourceRequest(max_gpus=1),
            profile=False,
            emulation=Emulation(time_scale=2.0),
        )

    def until(condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {[(r['id'], r['status']) for r in client.list()]}"
            time.sleep(0.05)

    def status(job: str) -> str:
        return str(client.describe(job)["status"])

    def trains(job: str, more: int = 8) -> None:
        """Wait until the job has made some more steps."""
        before = client.describe(job)["steps"]
        until(lambda: client.describe(job)["steps"] >= before + more, f"{job} trains")

    def refused(verb: Callable[[str], Any], job: str) -> str:
        try:
            verb(job)
        except JobStateError as error:
            return str(error)
        return ""

    def counts(job: str) -> set[int]:
        client.fetch_outputs(job, Path(folder) / job)
        return set(json.loads((Path(folder) / job / "seen.json").read_text()))

    told: dict[str, Any] = {}
    client = local_cluster.up("1x t4:2", settings=settings)
    try:
        life = client.submit(spec("life", str(EPOCHS), "0.1", "4"))
        until(lambda: status(life) == "running", "it begins")
        trains(life)
        told["resume of one that runs"] = refused(client.resume, life)

        told["paused"] = (client.pause(life), client.pause(life))
        record = local_cluster.ClusterRecord.load(state_dir)
        assert record is not None
        children = psutil.Process(record.head[0].pid).children(recursive=True)
        (service,) = [p for p in children if "SchedulerService" in " ".join(_words_of(p))]
        os.kill(service.pid, signal.SIGKILL)
        until(lambda: status(life) == "paused", "it pauses")
        told["paused row"] = client.describe(life)
        told["free while paused"] = client.cluster()["nodes"][0]["free_gpus"]
        other = client.submit(spec("other", "2", "0.1", "4"))
        told["other"] = client.wait([other], timeout_s=120)[other]
        told["steps while paused"] = client.describe(life)["steps"]

        told["resumed"] = client.resume(life)
        until(lambda: status(life) == "running", "it goes on")
        trains(life)
        told["requeued"] = client.requeue(life)
        until(lambda: any(event["kind"] == "requeue" for event in client.describe(life)["events"]), "it requeues")
        until(lambda: status(life) == "running", "it goes on")
        trains(life, 24)
        told["cancelled"] = (client.cancel(life), client.cancel(life))
        until(lambda: status(life) == "cancelled", "it saves and ends")
        told["cancelled row"] = client.describe(life)
        told["resumed"] = client.resume(life)
        until(lambda: status(life) == "running", "it goes on")
        import ray  # `up` has told it of the token

        told["actors"] = [a["name"] for a in ray.util.list_named_actors(all_namespaces=True) if "job" in a["name"]]
        trains(life)
        client.cancel(life)
        told["changed"] = client.resume(life, spec("other-name", str(EPOCHS), "0.09", "4"))
        until(lambda: status(life) == "running", "it goes on")
        trains(life)
        client.pause(life)
        told["changed while it leaves"] = client.resume(life, spec("other-name", str(EPOCHS), "0.08", "4"))
        told["life"] = client.wait([life], timeout_s=180)[life]
        told["life counts"] = counts(life)
        told["life log"] = "".join(client.logs(life))
        told["events"] = [event["kind"] for event in client.describe(life)["events"]]
        told["pause of one that has ended"] = refused(client.pause, life)
        told["resume of one that succeeded"] = refused(client.resume, life)
        told["no such step"] = refused(lambda job: client.fork(job, 7), life)

        fork = client.fork(life, job=spec("more", str(EPOCHS + 3), "0.05", "4"))
        told["fork"] = client.wait([fork], timeout_s=180)[fork]
        told["fork counts"] = counts(fork)
        told["fork log"] = "".join(client.logs(fork))
        told["fork events"] = [event["text"] for event in client.describe(fork)["events"]]
        wide = client.fork(life, job=spec("wide", str(EPOCHS + 3), "0.1", "5"))
        told["wide"] = client.wait([wide], timeout_s=180)[wide]
        told["wide details"] = client.describe(wide)
        told["checked"] = client.check_fork(life, job=spec("wide", str(EPOCHS + 3), "0.1", "4"))

        (job_dir / "count.py").write_text(COUNTING)
        os.chdir(job_dir)
        client.set_secret("HUB_TOKEN", SECRET)
        fields = {"name": "counting", "sizes": [1, 2], "secrets": {"TOKEN": "HUB_TOKEN"}}
        counting = client.submit(spec_of([sys.executable, "count.py"], job_dir, fields))
        until(lambda: "count 5\n" in "".join(client.logs(counting)), "it counts")
        client.pause(counting)
        until(lambda: status(counting) == "paused", "it pauses")
        client.set_secret("HUB_TOKEN", SECRET.upper())
        client.resume(counting)
        told["counting log"] = "".join(client.logs(counting, follow=True))
        told["counting"] = client.describe(counting)["phase"]
        folders = (state_dir, Path(record.temp_dir))  # the second one is Ray's
        kept = [path for folder_of in folders for path in folder_of.rglob("*")]
        told["secret found in"] = [str(path) for path in kept if _holds(path, SECRET)]

        os.environ["COADAPT_HOME"] = str(state_dir)
        said, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(said), redirect_stderr(errors):
            codes = [main.run(["run", "--", sys.executable, "-c", text]) for text in ("print(6 * 7)", "1 / 0")]
        told["run"] = codes, said.getvalue(), errors.getvalue()
        function = coadapt.submit(twice, 21)
        told["function"] = client.wait([function], timeout_s=60)[function], "".join(client.logs(function))
        client.close()
    finally:
        local_cluster.down(state_dir, grace_s=2.0)
    return told


def _holds(path: Path, text: str) -> bool:
    with suppress(OSError):  # a socket, or gone
        return path.is_file() and text.encode() in path.read_bytes()
    return False


def _words_of(process: Any) -> list[str]:
    import psutil

    with suppress(psutil.Error):
        return list(process.cmdline())
    return []


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(tell, (str(tmp_path_factory.mktemp("story")),)).get(timeout=580)


def test_a_paused_job_stays_so_though_the_service_is_killed_and_others_get_its_gpus(told: dict[str, Any]) -> None:
    assert told["paused"] == (True, False)
    row = told["paused row"]
    assert (row["reason"], row["wait_reason"], row["gpus"]) == ("paused by the user", "paused", 0)
    assert told["free while paused"] == 2
    assert told["other"] == "succeeded"
    assert told["steps while paused"] == row["steps"]
    assert told["resumed"] is True


def test_verbs_that_do_not_fit_are_one_sentence(told: dict[str, Any]) -> None:
    assert told["resume of one that runs"] == "life-1 is not paused: it is running"
    assert told["pause of one that has ended"] == "life-1 has succeeded, so there is nothing to pause"
    assert told["resume of one that succeeded"].startswith("life-1 has succeeded, so there is nothing to resume; ")
    assert told["no such step"].startswith("life-1 has no checkpoint of step 7; it has those of ")


def test_a_job_that_was_paused_requeued_and_cancelled_twice_saw_every_sample_once_an_epoch(
    told: dict[str, Any],
) -> None:
    assert (told["requeued"], told["cancelled"], told["resumed"]) == (True, (True, False), True)
    row = told["cancelled row"]
    assert row["reason"] == f"cancelled by the user; it saved at step {row['steps']}"
    assert told["life"] == "succeeded"
    assert told["life counts"] == {EPOCHS}
    assert (told["changed"], told["changed while it leaves"]) == (True, True)
    assert "coadapt: goes on with lr 0.09; the checkpoint is of 0.1" in told["life log"]
    assert "coadapt: goes on with lr 0.08; the checkpoint is of 0.09" in told["life log"]
    assert f"epoch {EPOCHS - 1} lr 0.08" in told["life log"]
    kinds = [kind for kind in told["events"] if kind in ("pause", "resume", "requeue", "cancel", "finish")]
    # A cancel is told when it is asked, and again when the job has saved, unless it was resumed before.
    assert [kind for kind, _ in groupby(kinds)] == [
        *("pause", "resume", "requeue", "cancel", "resume", "cancel", "resume", "pause", "resume", "finish")
    ]


def test_each_life_of_a_job_has_an_executor_of_its_own(told: dict[str, Any]) -> None:
    executors = [name for name in told["actors"] if "/" not in name]
    assert "coadapt-job-life-1~1" in executors
    assert "coadapt-job-life-1" not in executors


def test_a_fork_goes_on_from_the_checkpoint_with_its_own_options(told: dict[str, Any]) -> None:
    assert told["fork"] == "succeeded"
    assert told["fork counts"] == {EPOCHS + 3}
    assert "epoch 0 " not in told["fork log"]
    assert f"epoch {EPOCHS} lr 0.05" in told["fork log"]
    assert "coadapt: goes on with lr 0.05; the checkpoint is of 0.08" in told["fork log"]
    assert told["fork events"][0].startswith("forked from life-1 at step ")


def test_a_fork_of_another_model_fails_at_once_with_one_sentence(told: dict[str, Any]) -> None:
    assert told["wide"] == "failed"
    assert told["wide details"]["reason"] == (
        "checkpoint: does not fit the script; 0.weight is 4x8 in the checkpoint and 5x8 in the script, "
        "0.bias is 4 in the checkpoint and 5 in the script, "
        "2.weight is 2x4 in the checkpoint and 2x5 in the script"
    )
    assert told["wide details"]["failures"] == 1


def test_a_check_of_a_fork_names_the_step_that_it_would_start_from(told: dict[str, Any]) -> None:
    found = told["checked"]
    assert (found["refused"], found["sizes"]) == ([], {"t4": [1]})
    (note,) = found["notes"]
    assert note.startswith("it starts from the checkpoint of step ")


def test_a_program_that_saves_by_itself_is_paused_and_goes_on_too(told: dict[str, Any]) -> None:
    assert told["counting"] == "succeeded"
    counts = [int(line.split()[1]) for line in told["counting log"].splitlines() if line.startswith("count ")]
    assert counts == list(range(1, 61))
    assert told["counting log"].count("from ") == 2


def test_a_secret_reaches_its_program_changed_ones_at_its_next_start_and_no_file(told: dict[str, Any]) -> None:
    tokens = [line.split()[1] for line in told["counting log"].splitlines() if line.startswith("token ")]
    assert tokens == [SECRET[::-1], SECRET.upper()[::-1]]
    assert told["secret found in"] == []


def test_a_command_is_run_from_a_shell_and_a_function_from_its_source(told: dict[str, Any]) -> None:
    codes, said, errors = told["run"]
    assert codes == [0, 1]
    assert said.splitlines()[0] == "42"
    assert "failed: ZeroDivisionError: division by zero" in errors
    assert told["function"] == ("succeeded", "twice 42\n")
