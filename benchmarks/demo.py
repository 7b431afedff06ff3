"""`make demo`: real jobs on an emulated cluster of three GPU types, and what the scheduler does with them.

Seven PyTorch jobs of four kinds (the scripts of `examples/`): one that grows while it is alone, and six that come
soon after. What is real: gradients, batch sizes, learning rates, checkpoints, process groups, Ray actors and
restarts. What is emulated: GPUs; each step is paced to the time its GPU type was measured to need, times a
constant. The run fails (exit 1) unless every phenomenon it promises has happened and every job has reached its
target metric.

Writes `out/demo.png` (who held which GPUs when, and with which batch size) and the same as `out/demo.json`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from coadapt.cli import show
from coadapt.scheduler import jobfile, laptop
from coadapt.scheduler.client import Client
from coadapt.scheduler.job import JobSpec
from coadapt.scheduler.settings import Settings
from coadapt.scheduler.views import Interval, JobRow

from .harness import finish, table

ROOT = Path(__file__).resolve().parent.parent
CLUSTER = "1x a100:2, 1x rtx:2, 1x t4:4"
ROUND_S = 5.0
LIMIT_S = 345.0
ALONE_S = 60.0  # the first job has grown by then, or the others come all the same
COLOURS = {"a100": "#2f6fb7", "rtx": "#3f9b52", "t4": "#e0a030"}


@dataclass(frozen=True)
class Arrival:
    """Job `name` from `examples/<example>`, the first at the start, others `after_s` after that one has grown.

    `time_scale` fits the length of the job into the demo: how many times faster than measured its GPUs are.
    """

    after_s: float
    name: str
    example: str
    time_scale: float

    @property
    def spec(self) -> JobSpec:
        spec = jobfile.load(ROOT / "examples" / self.example / "job.yaml")
        emulation = spec.emulation.model_copy(update={"time_scale": self.time_scale})
        training = spec.training.model_copy(update={"report_interval_s": 2.0})
        return spec.model_copy(update={"name": self.name, "emulation": emulation, "training": training})


ARRIVALS = (
    Arrival(0, "chars-a", "char_transformer", 1.3),
    Arrival(5, "digits-a", "image_classifier", 0.15),
    Arrival(15, "tune-a", "finetune", 4),
    Arrival(25, "fixed", "rigid", 8),
    Arrival(35, "digits-b", "image_classifier", 0.15),
    Arrival(40, "digits-c", "image_classifier", 0.15),
    Arrival(50, "chars-b", "char_transformer", 4),
)


@dataclass(frozen=True)
class Promise:
    """Something a reader of the output must be able to see, and where it was seen first (None: it was not)."""

    what: str
    seen: str | None


# --- what happened: pure functions of the timeline --------------------------------------------------------


def running(timeline: Sequence[Interval], job: str) -> list[Interval]:
    return [i for i in timeline if i["job_id"] == job and i["phase"] == "running"]


def promises(timeline: Sequence[Interval], started_s: float) -> list[Promise]:
    """The first sight of each phenomenon."""
    jobs = list(dict.fromkeys(i["job_id"] for i in timeline))
    steps = [pair for job in jobs for pair in pairwise(running(timeline, job))]
    steps.sort(key=lambda pair: pair[1]["start_s"])

    def first(found: Sequence[tuple[Interval, Interval]], text: str) -> str | None:
        for old, new in found:
            clock = f"{new['start_s'] - started_s:.0f} s: {new['job_id']} "
            return clock + text.format(old=old, new=new)
        return None

    profiles = [i for i in timeline if i["phase"] == "profiling"]
    same_type = [(a, b) for a, b in steps if a["gpu_type"] == b["gpu_type"]]
    resized = "{old[gpus]} -> {new[gpus]} {new[gpu_type]}"
    moved = "{old[gpus]} {old[gpu_type]} -> {new[gpus]} {new[gpu_type]}"
    batch = "batch size {old[batch_size]} -> {new[batch_size]}, learning rate {old[lr]:.3g} -> {new[lr]:.3g}"
    return [
        Promise(
            "profiling",
            f"{len(profiles)} runs on {len({i['gpu_type'] for i in profiles})} GPU types" if profiles else None,
        ),
        Promise("scale-up", first([s for s in same_type if s[1]["gpus"] > s[0]["gpus"]], resized)),
        Promise(
            "scale-down under contention",
            first([s for s in same_type if s[1]["gpus"] < s[0]["gpus"] and contended(s[1], timeline)], resized),
        ),
        Promise(
            "migration between GPU types", first([s for s in steps if s[0]["gpu_type"] != s[1]["gpu_type"]], moved)
        ),
        Promise("batch size and learning rate follow", first([s for s in steps if follows(*s)], batch)),
    ]


def contended(shrunk: Interval, timeline: Sequence[Interval], within_s: float = 15.0) -> bool:
    """Another job took GPUs of the type about when this one gave some up."""
    return any(
        other["job_id"] != shrunk["job_id"]
        and other["gpu_type"] == shrunk["gpu_type"]
        and abs(other["start_s"] - shrunk["start_s"]) <= within_s
        for other in timeline
    )


def follows(old: Interval, new: Interval) -> bool:
    """The batch size changed, and the learning rate went the same way."""
    if not (old["batch_size"] and new["batch_size"] and old["lr"] and new["lr"]):
        return False
    return (new["batch_size"] > old["batch_size"] and new["lr"] > old["lr"]) or (
        new["batch_size"] < old["batch_size"] and new["lr"] < old["lr"]
    )


def reached(spec: JobSpec, row: JobRow) -> bool:
    """The job ended well, at its target metric if it has one."""
    target = spec.training.target
    ended = row["phase"] == "succeeded"
    return ended and (target is None or target.reached(row["metrics"].get(target.metric, float("nan"))))


# --- the run ----------------------------------------------------------------------------------------------


def drive(client: Client, specs: Mapping[str, JobSpec]) -> tuple[list[JobRow], float]:
    """Submit on time, tell what happens, return the last rows once all have ended or the time is up."""
    started_s, grown_s, left = time.time(), ALONE_S, list(ARRIVALS[1:])
    rows: dict[str, JobRow] = {}
    client.submit(specs[ARRIVALS[0].name])
    while True:
        elapsed = time.time() - started_s
        while left and left[0].after_s <= elapsed - grown_s:
            client.submit(specs[left.pop(0).name])
        found = client.list()
        if any(row["phase"] == "running" and row["gpus"] > 1 for row in found):
            grown_s = min(grown_s, elapsed)
        for line in show.change_lines(rows, found):
            print(f"{elapsed:5.0f} s  {line}", flush=True)
        rows = {row["id"]: row for row in found}
        if (not left and all(row["finished_s"] is not None for row in found)) or elapsed > LIMIT_S:
            return found, started_s
        time.sleep(0.5)


def summary(rows: Sequence[JobRow], timeline: Sequence[Interval]) -> None:
    def first_last(values: Sequence[float | None]) -> str:
        known = [v for v in values if v]
        return f"{show.number(known[0])} -> {show.number(known[-1])}" if known else "-"

    cells = []
    for row in rows:
        mine = running(timeline, row["id"])
        types = " ".join(dict.fromkeys(i["gpu_type"] for i in mine))
        most = max((i["gpus"] for i in mine), default=0)
        cells.append(
            (
                row["id"],
                row["phase"],
                show.duration((row["finished_s"] or time.time()) - row["submitted_s"]),
                row["restarts"],
                types,
                most,
                first_last([i["batch_size"] for i in mine]),
                first_last([i["lr"] for i in mine]),
                show.metrics(row),
            )
        )
    columns = ("job", "phase", "JCT", "pauses", "GPU types", "most GPUs", "batch size", "LR", "final metrics")
    table(f"Jobs on the emulated cluster {CLUSTER}", columns, cells)


def picture(rows: Sequence[JobRow], timeline: Sequence[Interval], started_s: float, path: Path) -> None:
    """One lane per job: a bar as high as its GPUs, coloured by GPU type, with its batch size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    now = time.time()
    most = max((i["gpus"] for i in timeline), default=1)
    figure, axes = plt.subplots(figsize=(13, 0.9 * len(rows) + 1.6))
    for lane, row in enumerate(rows):
        axes.plot(
            [row["submitted_s"] - started_s, (row["finished_s"] or now) - started_s], [lane, lane], "k-", lw=0.5
        )
        shown = None
        for i in (i for i in timeline if i["job_id"] == row["id"]):
            left, width = i["start_s"] - started_s, (i["end_s"] or now) - i["start_s"]
            height, colour = 0.85 * i["gpus"] / most, COLOURS.get(i["gpu_type"], "grey")
            profiling = i["phase"] == "profiling"
            style = {"facecolor": "none", "edgecolor": colour, "hatch": "////"} if profiling else {"color": colour}
            axes.bar(left, height, width, bottom=lane, align="edge", lw=0.5, **style)
            # Numbers over narrower bars would print over each other.
            if not profiling and i["batch_size"] and i["batch_size"] != shown and width > 6:
                shown = i["batch_size"]
                axes.text(left, lane + height + 0.02, str(shown), fontsize=7)
    axes.set_yticks(range(len(rows)), [row["id"] for row in rows])
    axes.set_xlabel("seconds")
    axes.set_title(f"Coadapt on {CLUSTER} (emulated): bar height = GPUs (1 to {most}), number = batch size")
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    handles.append(plt.Rectangle((0, 0), 1, 1, facecolor="none", edgecolor="black", hatch="////"))
    axes.legend(handles, [*COLOURS, "profiling"], loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


@dataclass(frozen=True)
class Ran:
    """What the jobs did: their last rows, who held what when, and the trace they leave for a simulator."""

    rows: list[JobRow]
    started_s: float
    timeline: list[Interval]
    tracebacks: list[str]
    trace: list[str]


def live(specs: dict[str, JobSpec]) -> Ran:
    """Run the jobs on the emulated cluster."""
    print(f"starting Ray with emulated nodes {CLUSTER}; they run on CPU at the pace of their GPU type", flush=True)
    with tempfile.TemporaryDirectory(prefix="coadapt-demo-") as state_dir:
        settings = Settings(state_dir=state_dir, round_interval_s=ROUND_S, restart_cost_s=3.0, profile_share=1.0)
        with laptop.cluster(CLUSTER, settings=settings) as client:
            rows, started_s = drive(client, specs)
            failed = [row for row in rows if row["phase"] == "failed"]
            tracebacks = [str(client.describe(row["id"]).get("traceback", "")) for row in failed]
            return Ran(rows, started_s, list(client.timeline()), tracebacks, list(client.trace()))


def main() -> int:
    began = time.time()
    specs = {arrival.name: arrival.spec for arrival in ARRIVALS}
    ran = live(specs)
    rows, timeline, started_s = ran.rows, ran.timeline, ran.started_s
    summary(rows, timeline)
    picture(rows, timeline, started_s, ROOT / "out" / "demo.png")
    (ROOT / "out" / "demo.json").write_text(json.dumps({"jobs": rows, "timeline": timeline}, indent=1))
    (ROOT / "out" / "demo.jsonl").write_text("".join(f"{line}\n" for line in ran.trace))
    for text in filter(None, ran.tracebacks):
        print(text)
    seen = promises(timeline, started_s)
    hits = [row for row in rows if reached(specs[row["name"]], row)]
    every = len(hits) == len(ARRIVALS)
    seen.append(
        Promise("all jobs reach their target metric", f"{len(hits)} of {len(ARRIVALS)}" if every else None)
    )
    for promise in seen:
        print(f"{'seen' if promise.seen else 'NOT SEEN':8}  {promise.what}: {promise.seen or ''}")
    wall_s = time.time() - began
    print(f"picture: {ROOT / 'out' / 'demo.png'}")
    finish(
        "demo",
        {
            "jobs": len(rows),
            "jobs_at_target": len(hits),
            "restarts": sum(row["restarts"] for row in rows),
            "mean_jct_s": round(
                sum((r["finished_s"] or time.time()) - r["submitted_s"] for r in rows) / len(rows), 1
            ),
            "wall_s": round(wall_s, 1),
            "promises_kept": sum(promise.seen is not None for promise in seen),
            "promises": len(seen),
        },
    )
    return 0 if all(promise.seen for promise in seen) else 1


if __name__ == "__main__":
    sys.exit(main())
