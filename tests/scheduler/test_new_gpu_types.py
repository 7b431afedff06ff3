"""A running job on an emulated cluster is measured on a GPU type that joins, trains meanwhile, and moves there."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

# A cluster in a process of its own, and some six training processes: a minute, several on a busy machine.
pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]
SCRIPT = Path(__file__).parents[1] / "support" / "elastic_script.py"


def story(folder: str) -> dict[str, Any]:
    os.environ.pop("RAY_TMPDIR", None)
    from coadapt.core.emulated_nodes import parse
    from coadapt.core.job import JobSpec, ResourceRequest
    from coadapt.core.settings import Settings
    from coadapt.core.training_config import TrainingConfig
    from coadapt.deploy import local_cluster

    state_dir, out = Path(folder) / "state", Path(folder) / "out"
    out.mkdir()
    settings = Settings(state_dir=str(state_dir), round_interval_s=2.0, restart_cost_s=0.1)
    spec = JobSpec(
        name="long",
        script=SCRIPT.name,
        args=["--out", str(out), "--epochs", "1000000"],
        working_dir=str(SCRIPT.parent),
        resources=ResourceRequest(max_gpus=1),
        training=TrainingConfig(report_interval_s=1.0),
    )
    client = local_cluster.up("1x t4:1", settings=settings)
    phases = set[str]()

    def until(accept: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 120
        while not accept(found := dict(client.describe(job))) and time.monotonic() < deadline:
            phases.add(found["phase"])
            time.sleep(0.1)
        return found

    try:
        job = client.submit(spec)
        before = until(lambda found: found["phase"] == "running" and found["steps"] > 0)
        phases.clear()
        record = local_cluster.ClusterRecord.load(state_dir)
        assert record is not None
        more = local_cluster.add_nodes(record, parse("1x a100:1"))
        replace(record, nodes=(*record.nodes, *more)).save(state_dir)
        measured = until(
            lambda found: found["profiles"].get("a100") not in (None, "to be measured", "being measured")
        )
        moved = until(lambda found: found["gpu_type"] == "a100")
        client.cancel(job)
        client.close()
    finally:
        local_cluster.down(state_dir, grace_s=2.0)
    return {"before": before, "measured": measured, "moved": moved, "phases": phases}


def test_a_running_job_is_measured_on_a_type_that_joins_without_a_pause_and_then_uses_it(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        told = pool.apply_async(story, (str(tmp_path),)).get(timeout=380)
    assert told["before"]["gpu_type"] == "t4"
    assert told["measured"]["profiles"] == {"t4": "measured", "a100": "measured"}
    assert told["phases"] == {"running"}
    events = told["moved"]["events"]
    joined = next(i for i, event in enumerate(events) if "new in the cluster" in event["text"])
    ended = next(i for i, event in enumerate(events) if event["text"].startswith("a100 measured"))
    assert [event["kind"] for event in events[joined : ended + 1]] == ["admitted", "profiling", "profiled"]
    assert told["moved"]["gpu_type"] == "a100"
    assert told["moved"]["recoveries"] == told["moved"]["evictions"] == 0
