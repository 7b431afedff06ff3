"""The run itself: a cluster, jobs that come when others have progressed far enough, and an end."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coadapt.cli.browser import link
from coadapt.client.client import Client
from coadapt.core.job import JobSpec
from coadapt.core.schemas import JobRow, TimelineRow
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster

from . import cast, phenomena
from .phenomena import Promise

CLUSTER = "1x a100:2, 1x rtx:2, 1x t4:4"
ROUND_S = 5.0
CAP_S = 900.0  # from the command's start; jobs that have not ended by then are named
LOOK_S = 0.5

Watch = Callable[[float, Sequence[JobRow], Sequence[Promise]], None]


@dataclass(frozen=True)
class Ran:
    """What the jobs did: their last rows, who held what when, and their trace for a simulator."""

    specs: dict[str, JobSpec]  # by job id
    rows: list[JobRow]
    started_s: float
    timeline: list[TimelineRow]
    tracebacks: list[str]
    trace: list[str]

    @property
    def promises(self) -> list[Promise]:
        hits = sum(cast.reached(self.specs[row["id"]], row) for row in self.rows)
        every = f"{hits} of {len(self.rows)}" if self.rows and hits == len(self.rows) else None
        return [*phenomena.promises(self.timeline, self.started_s), Promise(phenomena.TARGETS, every)]

    @property
    def unfinished(self) -> list[JobRow]:
        return [row for row in self.rows if row["finished_s"] is None]


def play(pace: float, watch: Watch, ends_s: float) -> Ran:
    """Run the jobs on the emulated cluster until all have ended or the clock reaches `ends_s` (of `time.time`).

    `pace`: the factor of speed of `cast.pace`.
    `watch`: is called with elapsed seconds, rows and promises.
    """
    with tempfile.TemporaryDirectory(prefix="coadapt-demo-") as state_dir:
        settings = Settings(state_dir=state_dir, round_interval_s=ROUND_S, restart_cost_s=3.0, profile_share=1.0)
        with local_cluster.cluster(CLUSTER, settings=settings) as client:
            print(f"page: {link(client)}\n(signs you in once, while the demo runs)", flush=True)
            return _direct(client, pace, watch, ends_s)


def _direct(client: Client, pace: float, watch: Watch, ends_s: float) -> Ran:
    started_s = time.time()
    specs: dict[str, JobSpec] = {}
    while True:
        rows, timeline = client.list(), list(client.timeline())
        seen = phenomena.promises(timeline, started_s)
        missing = phenomena.missing(seen)
        watch(time.time() - started_s, rows, seen)
        if cast.finished(rows, missing) or time.time() > ends_s:
            failed = [row for row in rows if row["phase"] == "failed"]
            tracebacks = [str(client.describe(row["id"]).get("traceback", "")) for row in failed]
            return Ran(specs, rows, started_s, timeline, tracebacks, list(client.trace()))
        if entering := cast.comes(rows, missing):
            role, act = entering
            spec = role.spec(pace, act)
            specs[client.submit(spec)] = spec
        else:
            time.sleep(LOOK_S)
