"""The client against a real emulated cluster: one story in a process of its own, several promises."""

import multiprocessing
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from coadapt.client.client import NoClusterError, settings_of
from coadapt.core.settings import Settings

# The story starts two clusters and some ten processes: about a minute, several on a busy machine.
pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

# --- a story ---------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys
from pathlib import Path
import torch, coadapt
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(512, 8)
y = (x.sum(1) > 0).long()
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
print("job", os.environ["COADAPT_JOB_ID"], os.environ.get("WANDB_RUN_ID"), "beside", os.listdir(), flush=True)
Path(f"beside-{sys.argv[1]}").write_text("found again")
for epoch in coadapt.epochs(int(sys.argv[1])):
    for a, b in loader:
        loss = nn.functional.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    coadapt.report(loss=loss.item())
    print("epoch", epoch, flush=True)
    if coadapt.is_main():
        (coadapt.output_dir() / "curve.txt").open("a").write(f"{epoch}\\n")
print("the end", flush=True)
"""


def tell(folder: str) -> dict[str, Any]:
    """Collect everything that the tests below want to know, from two lives of one cluster."""
    os.environ.pop("RAY_TMPDIR", None)
    os.environ.pop("RAY_AUTH_MODE", None)  # as a user has it: with a token
    import psutil
    from coadapt.client.client import UnknownJobError, connect
    from coadapt.core.errors import PackageError
    from coadapt.core.job import Emulation, JobSpec, Phase, ResourceRequest
    from coadapt.core.settings import Settings
    from coadapt.deploy import local_cluster
    from coadapt.deploy.start_service import SettingsError, start_service

    job_dir, state_dir = Path(folder) / "job", Path(folder) / "state"
    job_dir.mkdir()
    (job_dir / "train.py").write_text(SCRIPT)
    settings = Settings(state_dir=str(state_dir), round_interval_s=3.0, restart_cost_s=5.0)

    def spec(name: str, epochs: int, **resources: Any) -> JobSpec:
        return JobSpec(
            name=name,
            script="train.py",
            args=[str(epochs)],
            working_dir=str(job_dir),
            resources=ResourceRequest(max_gpus=2, **resources),
            emulation=Emulation(time_scale=2.0),
        )

    def words_of(process: psutil.Process) -> list[str]:
        with suppress(psutil.Error):
            return process.cmdline()
        return []  # it ended meanwhile

    def is_template(process: psutil.Process) -> bool:
        return "coadapt.executor.processes.template" in words_of(process)

    def lives(process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return False

    def mark_of(process: psutil.Process) -> str:
        with suppress(psutil.Error):
            return process.environ().get(local_cluster.MARK, "")
        return ""

    def until(client: Any, job: str, *phases: str) -> str:
        deadline = time.monotonic() + 180
        while (phase := client.describe(job)["phase"]) not in phases and time.monotonic() < deadline:
            time.sleep(0.1)
        return str(phase)

    told: dict[str, Any] = {}
    client = local_cluster.up("1x t4:2", settings=settings)
    try:
        told["cluster"] = client.cluster()
        short = client.submit(spec("short", 12), idempotency_key="one")
        told["same id"] = client.submit(spec("short", 12), idempotency_key="one") == short
        record = local_cluster.ClusterRecord.load(state_dir)
        assert record is not None
        try:
            start_service(record, settings.model_copy(update={"round_interval_s": 9.0}))
        except SettingsError as error:
            told["other settings"] = str(error)
        start_service(record, settings)  # the same again is no error
        large = Path(folder) / "large"
        large.mkdir()
        (large / "train.py").write_text(SCRIPT)
        with (large / "data.bin").open("wb") as file:
            file.truncate(1 << 30)
        try:
            client.submit_all([spec("good", 3), spec("large", 3).model_copy(update={"working_dir": str(large)})])
        except PackageError as error:
            told["too large"] = str(error), [row["name"] for row in client.list()]
        absent = client.submit(spec("absent", 3, gpu_types=["h100"]))
        told["short"] = client.wait([short], timeout_s=240)[short]
        told["short log"] = "".join(client.logs(short, follow=True))
        told["short ends"] = (
            "".join(client.logs(short, tail=2)),
            "".join(client.logs(short, since_s=3600.0, rank="all")),
        )
        told["short details"] = client.describe(short)
        told["outputs"] = [output.path for output in client.outputs(short)]
        told["fetched"] = client.fetch_outputs(short, Path(folder) / "fetched")
        told["curve"] = (Path(folder) / "fetched" / "curve.txt").read_text().split()
        told["timeline"] = client.timeline(short)
        told["short measured"] = "".join(client.logs(short, measuring=True))
        told["absent"] = client.describe(absent)
        told["list"] = client.list()
        try:
            client.describe("nothing-9")
        except UnknownJobError as error:
            told["unknown"] = str(error)

        long = client.submit(spec("long", 400, gpu_types=["t4"]))
        told["long runs"] = until(client, long, "running")
        told["explain"] = client.explain(long)
        long_folder = Path(str(client.describe(long)["folder"]))
        told["in its folder"] = sorted(path.name for path in long_folder.iterdir())
        told["folders"] = sorted(path.name for path in long_folder.parent.glob("[!.]*"))
        (job_dir / "broken.py").write_text(SCRIPT.replace("x = ", 'raise ValueError("no data\\nanywhere")\nx = '))
        broken = client.submit(spec("broken", 12).model_copy(update={"script": "broken.py"}))
        told["broken"] = client.wait([broken], timeout_s=240)[broken]
        told["broken details"] = client.describe(broken)
        told["broken measured"] = "".join(client.logs(broken, measuring=True))
        told["broken sources"] = client.log_sources(broken)
        children = psutil.Process(record.head[0].pid).children(recursive=True)
        templates = [p for p in psutil.process_iter() if is_template(p) and mark_of(p).startswith(record.mark)]
        own = {template.pid for template in templates}  # a process that it forks is named as it for a moment
        told["trains"] = [len(template.children()) for template in templates if template.ppid() not in own]
        children += templates
        deadline = time.monotonic() + 60
        while not client.describe(long)["usage"] and time.monotonic() < deadline:
            time.sleep(0.1)
        (service,) = [p for p in children if "SchedulerService" in " ".join(words_of(p))]
        os.kill(service.pid, signal.SIGKILL)
        told["after kill"] = {row["id"]: row["phase"] for row in client.list()}
        told["cancelled"] = (client.cancel(absent), client.cancel(absent))
        told["steps before"] = client.describe(long)["steps"]
        told["use before"] = client.describe(long)["usage"]
        client.close()
        told["down"] = local_cluster.down(state_dir)
        told["left over"] = [p.pid for p in children if lives(p)]

        client = local_cluster.up("1x t4:2", settings=settings)
        client.close()
        client = connect(state_dir=state_dir)
        told["long goes on"] = until(client, long, "running", "succeeded")
        deadline = time.monotonic() + 120
        while client.describe(long)["steps"] <= told["steps before"] and time.monotonic() < deadline:
            time.sleep(0.1)
        # It may have trained on between that number and its end. Its log tells when it has started again.
        while "".join(client.logs(long)).count("job long-3") < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        told["steps after"] = client.describe(long)["steps"]
        told["use after"] = client.describe(long)["usage"]
        told["long log"] = "".join(client.logs(long))
        told["outputs after down"] = [output.path for output in client.outputs(short)]
        client.cancel(long)
        told["long ends"] = client.wait([long], timeout_s=120)[long] is Phase.CANCELLED
        deadline = time.monotonic() + 120
        while client.cluster()["nodes"][0]["free_gpus"] < 2 and time.monotonic() < deadline:
            time.sleep(0.1)  # no event tells when GPUs and folders are free; up to the deadlines
        deadline = time.monotonic() + 60
        # A folder that is removed is renamed first.
        while len(list(long_folder.parent.iterdir())) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        told["left of folders"] = sorted(path.name for path in long_folder.parent.iterdir())
        told["free at the end"] = client.cluster()["nodes"][0]["free_gpus"]
        client.close()
    finally:
        local_cluster.down(state_dir, grace_s=2.0)
    return told


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(tell, (str(tmp_path_factory.mktemp("story")),)).get(timeout=580)


def test_every_emulated_node_is_there_and_labelled(told: dict[str, Any]) -> None:
    (node,) = told["cluster"]["nodes"]
    assert (node["gpu_type"], node["gpus"], node["free_gpus"], node["emulated"]) == ("t4", 2, 2, True)


def test_a_scheduler_that_runs_keeps_its_settings_and_says_so(told: dict[str, Any]) -> None:
    assert "round_interval_s 3.0 (not 9.0)" in told["other settings"]


def test_a_repeated_submit_makes_no_second_job(told: dict[str, Any]) -> None:
    assert told["same id"]


def test_the_use_of_emulated_gpus_is_shown_and_survives_both_kinds_of_restart(told: dict[str, Any]) -> None:
    """Its executor told of it, which ended with the cluster, to a service that was killed."""
    for details in (told["short details"], next(row for row in told["list"] if row["name"] == "short")):
        use = details["usage"]["t4"]
        assert use["emulated"]
        assert 0 < use["mean"]["gpu_util"] <= 1
        assert use["mean"]["memory_gib"] is None
        assert details["idle_gpu_minutes"] == 0
    assert told["use after"]["t4"]["gpu_s"] >= told["use before"]["t4"]["gpu_s"] > 0


def test_a_job_is_measured_trained_and_ends(told: dict[str, Any]) -> None:
    assert told["short"] == "succeeded"
    assert "loss" in told["short details"]["metrics"]
    assert {"submitted", "profiling", "profiled", "running", "finish"} <= {
        event["kind"] for event in told["short details"]["events"]
    }
    assert next(span["phase"] for span in told["timeline"]) == "profiling"
    assert all(span["end_s"] is not None for span in told["timeline"])


def test_of_several_jobs_none_is_submitted_where_a_folder_cannot_be_sent(told: dict[str, Any]) -> None:
    said, names = told["too large"]
    assert "large has more than 400 MiB, at most 100 MiB are sent" in said
    assert "good" not in names


def test_its_whole_output_can_be_read(told: dict[str, Any]) -> None:
    assert "epoch 11" in told["short log"]
    assert "the end" in told["short log"]


def test_its_newest_lines_can_be_read(told: dict[str, Any]) -> None:
    newest, recent = told["short ends"]
    lines = told["short log"].splitlines()
    assert newest.splitlines() == lines[-2:]
    assert f"[rank-0] {lines[-1]}" in recent.splitlines()


def test_each_job_has_a_folder_of_its_own_and_profile_runs_leave_none(told: dict[str, Any]) -> None:
    (folder,) = told["folders"]
    assert folder.startswith("long-3-")
    assert told["in its folder"] == ["beside-400", "train.py"]
    assert "job short-1 short-1 beside ['train.py']" in told["short log"]


def test_what_it_wrote_beside_its_script_is_there_after_a_restart(told: dict[str, Any]) -> None:
    assert "'beside-400'" in told["long log"].split("job long-3")[-1]


def test_its_outputs_are_listed_fetched_and_outlive_the_cluster(told: dict[str, Any]) -> None:
    assert told["outputs"] == told["outputs after down"] == ["curve.txt"]
    assert told["fetched"].files == 1
    assert told["curve"] == [str(epoch) for epoch in range(12)]
    assert told["short details"]["outputs"].endswith("checkpoints/short-1/outputs")


def test_an_ended_jobs_folder_is_removed(told: dict[str, Any]) -> None:
    assert told["left of folders"] == [".lock"]


def test_what_it_wrote_while_it_was_measured_is_apart(told: dict[str, Any]) -> None:
    assert "epoch 0\n" in told["short log"]
    assert "profile-t4" not in told["short log"]
    assert all(line.startswith("[profile-t4] ") for line in told["short measured"].splitlines())


def test_a_script_that_fails_while_it_is_measured_is_tried_twice_and_told_with_its_traceback(
    told: dict[str, Any],
) -> None:
    details = told["broken details"]
    assert (told["broken"], details["reason"], details["failures"]) == ("failed", "ValueError: no data", 2)
    assert 'raise ValueError("no data' in details["traceback"]
    assert told["broken measured"].count("[profile-t4] Traceback") == 2
    assert told["broken sources"] == ("profile-t4",)


def test_a_job_for_gpus_that_are_not_there_waits_and_says_so(told: dict[str, Any]) -> None:
    assert told["absent"]["phase"] == "submitted"
    assert told["absent"]["reason"] == "waiting for GPU type h100; the cluster has t4"
    assert told["absent"]["wait_reason"] == "no_gpu_type"
    assert {row["wait_reason"] for row in told["list"] if row["name"] == "absent"} == {"no_gpu_type"}


def test_an_unknown_job_is_an_error_of_its_own(told: dict[str, Any]) -> None:
    assert told["unknown"] == "no job nothing-9"


def test_a_running_job_is_explained(told: dict[str, Any]) -> None:
    assert told["explain"]["lines"]


def test_reading_goes_on_across_a_killed_service(told: dict[str, Any]) -> None:
    assert told["after kill"]["short-1"] == "succeeded"
    assert told["after kill"]["long-3"] == "running"


def test_a_job_is_cancelled_once(told: dict[str, Any]) -> None:
    assert told["cancelled"] == (True, False)


def test_training_processes_come_from_a_template(told: dict[str, Any]) -> None:
    (processes,) = told["trains"]  # of one template
    assert processes >= 1, "as many as it has GPUs, and those that are leaving"


def test_down_leaves_no_process_behind(told: dict[str, Any]) -> None:
    assert told["down"] is True
    assert told["left over"] == []


def test_a_job_goes_on_after_the_whole_cluster_was_restarted(told: dict[str, Any]) -> None:
    assert told["long goes on"] in ("running", "succeeded")
    assert told["steps after"] > told["steps before"] > 0


def test_an_ended_job_gives_its_gpus_back(told: dict[str, Any]) -> None:
    assert told["long ends"]
    assert told["free at the end"] == 2


# --- another version -------------------------------------------------------------------------------------


def test_a_service_of_another_version_is_told_in_one_sentence() -> None:
    known = Settings().model_dump()
    assert settings_of(known, "here:1") == Settings()
    with pytest.raises(NoClusterError, match=r"at here:1 is of another version .* \(unheard_of\); use the same"):
        settings_of({**known, "unheard_of": 1}, "here:1")
