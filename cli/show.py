"""Figures as people read them: tables for `list`, `cluster` and `describe`. Nothing here asks the cluster."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..core.deadline_answer import Answer
from ..core.decisions import WaitReason
from ..core.json_numbers import shown
from ..core.phase import Phase
from .plain import plain, printable
from .predicted import deadline_rows, ends_in, lines, starts_in

if TYPE_CHECKING:
    from ..core.schemas import (
        ClusterView,
        JobDetails,
        JobRow,
        MachineRow,
        NodeRow,
        PhaseRow,
        RefusedStatuses,
        ScalingView,
        UsageRow,
    )

STATUS_STYLES = {
    "measuring": "cyan",
    "starting": "cyan",
    "waiting": "yellow",
    "evicted": "yellow",
    "paused": "yellow",
    "quarantined": "bold red",
    "leaving": "yellow",
    "restarting": "red",
    "running": "green",
    "succeeded": "bold green",
    "failed": "bold red",
    "cancelled": "dim",
}
MACHINE_STYLES = {"leaving": "yellow", "asleep": "dim", "waking": "cyan", "failed": "bold red"}
EMULATED = "emulated"
MOST_METRICS = 6  # the most that a table shows per job
MOST_NAMED = 4  # the most jobs that a reason is told of by name


def _line(text: str, style: str = "") -> Text:
    """Return what others wrote as one line of a table."""
    return Text(printable(text), style)


def duration(seconds: float | None) -> str:
    """Format seconds as `47s`, `12m05s`, `3h07m` or `2d04h`; `-`: not known."""
    if seconds is None or seconds < 0:
        return "-"
    whole = int(seconds)
    for unit, size, below, digits in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // digits:02d}{below}"
    return f"{whole}s"


def where(job: Mapping[str, object]) -> str:
    """Format a job's GPUs as `4 a100 (emulated)`, `2 GPUs` if they are of several types, or `-` if it has none.

    A part of them is `0.5 x t4 with rigid-3`. GPUs that other teams leave idle are `2 t4 (borrowed, emulated)`.
    """
    if not job.get("gpus"):
        return "-"
    notes = [word for word, holds in (("borrowed", job.get("borrows")), (EMULATED, job.get("emulated"))) if holds]
    label = f" ({', '.join(notes)})" if notes else ""
    kind, share = job["gpu_type"] or "GPUs", float(str(job.get("share", 1.0)))
    if share >= 1:
        return f"{job['gpus']} {kind}{label}"
    told = job.get("beside")
    beside = list(map(str, told)) if isinstance(told, list) else []
    part = f"{share:g} x {kind}" if job["gpus"] == 1 else f"{share:g} of {job['gpus']} {kind}"
    partners = f" with {', '.join(beside)}" if beside else ""
    return f"{part}{partners}{label}"


def progress(job: JobRow) -> str:
    """Format the fraction done, with the epochs if they are known; "-" before anything is told of it."""
    if not job["fraction"] and not job["steps"] and job["epoch"] is None:
        return "-"
    epochs = f" {job['epoch']}/{job['epochs']}" if job["epoch"] is not None and job["epochs"] else ""
    return f"{job['fraction']:.0%}{epochs}"


def metrics(job: JobRow, most: int = MOST_METRICS) -> str:
    """Format at most so many metrics as `loss=0.5 accuracy=0.9`."""
    told = [f"{printable(name)}={shown(value)}" for name, value in job["metrics"].items()]
    more = [f"and {len(told) - most} more"] if len(told) > most else []
    return " ".join(told[:most] + more) or "-"


def metrics_with_places(job: JobRow) -> str:
    """Format every metric, grouped by the place in the training where it was measured.

    An example is `loss=0.5 accuracy=0.9 (epoch 3, 1920 samples)`.
    """
    groups: dict[tuple[int, int] | None, list[str]] = {}
    for name, value in job["metrics"].items():
        at = job.get("measured_at", {}).get(name)
        place = (at["epoch"], at["samples"]) if at is not None else None
        groups.setdefault(place, []).append(f"{printable(name)}={shown(value)}")
    told = [
        " ".join(names) + (f" (epoch {place[0]}, {place[1]} samples)" if place else "")
        for place, names in groups.items()
    ]
    return ", ".join(told) or "-"


def left(job: JobRow, now: float) -> str:
    """Format the time to a job's end, as predicted with a band or by its last reports; `-`: unknown.

    `<12m05s`: a target may end it sooner.
    """
    if predicted := ends_in(job, now):
        return predicted
    ends_s = job["ends_s"]
    if ends_s is None or ends_s < now + 1:
        return "-"
    return ("<" if job["has_target"] else "") + duration(ends_s - now)


def due(job: JobRow, now: float) -> str:
    """Format the time to a job's first deadline, and of one that has ended whether it held; `-`: it has none."""
    due_s, ended_s = job.get("due_s"), job["finished_s"]
    if due_s is None:
        return "-"
    if ended_s is not None:
        return "on time" if ended_s <= due_s and job["phase"] == Phase.SUCCEEDED else "missed"
    if due_s <= now:
        return f"{duration(now - due_s)} ago"
    told = job.get("deadline")
    doubt = f" ({Answer(told['answer']).line})" if told is not None and Answer(told["answer"]).holds_not else ""
    return f"{duration(due_s - now)}{doubt}"


def jobs_table(
    jobs: Sequence[JobRow], now: float | None = None, *, missing: Sequence[str] = (), bars: bool = False
) -> RenderableType:
    """Return a table with one line per job; `-` stands where a job has nothing to show.

    `missing`: the kinds of jobs of which there are more than these.
    `bars`: show progress bars, too.
    """
    hint = f"more jobs that {_in_words(missing)}: `coadapt list --all`" if missing else ""
    if not jobs:
        return Text(hint or "no jobs; `coadapt submit job.yaml` submits one")
    now = time.time() if now is None else now
    table = Table(box=None, pad_edge=False, header_style="bold")
    starts = ["STARTS"] if any(starts_in(job, now) for job in jobs) else []
    dues = ["DUE"] if any(job.get("due_s") is not None for job in jobs) else []
    names = (
        "JOB",
        "STATUS",
        "GPUS",
        "BATCH",
        "LR",
        *([""] if bars else []),
        "PROGRESS",
        *starts,
        *dues,
        "ETA",
        "METRICS",
    )
    kept = ("JOB", "STATUS", "GPUS", "PROGRESS", "STARTS", "DUE", "ETA")
    for name in (*names, "AGE", "PAUSES"):
        table.add_column(name, no_wrap=name in kept, overflow="fold")
    for job in jobs:
        end = job["finished_s"] or now
        table.add_row(
            _line(job["id"]),
            _line(job["status"], STATUS_STYLES.get(job["status"], "")),
            _line(where(job)),
            str(job["batch_size"] or "-"),
            shown(job["lr"]),
            *([ProgressBar(total=1.0, completed=job["fraction"], width=20)] if bars else []),
            progress(job),
            *([starts_in(job, now) or "-"] if starts else []),
            *([due(job, now)] if dues else []),
            left(job, now),
            Text(metrics(job)),
            duration(end - job["submitted_s"]),
            str(job["restarts"]),
        )
    notes = [*waits(jobs), *([hint] if hint else [])]
    return Group(table, Text("\n" + "\n".join(notes), "dim")) if notes else table


def _in_words(kinds: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))


def waits(jobs: Iterable[JobRow]) -> list[str]:
    """Return a line for each reason why jobs have no GPUs, with the jobs; next rounds and measuring need none."""
    reasons: dict[str, list[str]] = {}
    for job in jobs:
        code = job["wait_reason"]
        if code is not None and code not in (WaitReason.NEXT_ROUND, WaitReason.MEASURING):
            reasons.setdefault(job["reason"] or WaitReason(code).line, []).append(job["id"])
    lines = []
    for why, ids in reasons.items():
        more = len(ids) - MOST_NAMED
        told = ", ".join(ids[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "") + f": {why}"
        lines.append(printable(told))
    return lines


_AMOUNTS = ("FREE GPUS", "FREE CPUS", "FREE GIB")


def _free(free: float | None, total: float) -> str:
    """Format a free amount as `12/16`; `-`: the node does not say."""
    return "-" if free is None else f"{round(free, 1):g}/{round(total, 1):g}"


def free_cpus(node: NodeRow) -> str:
    """Format the free CPUs of a node as `12/16`, and as `12/16 (cores 4-15)` where jobs keep to cores."""
    cores = f" (cores {printable(node['free_cores'])})" if node.get("free_cores") else ""
    return _free(node["free_cpus"], node["cpus"]) + cores


def tenants(node: NodeRow) -> str:
    """Format the jobs of a node, each with its GPUs and cores, as `a-1 (0-2, cores 0-5), b-2 (0.5 of 3)`."""
    cores = node.get("cores") or {}
    held: dict[str, dict[float, list[int]]] = {}
    for device in node["devices"]:
        for job, share in device["tenants"].items():
            held.setdefault(job, {}).setdefault(share, []).append(device["index"])
    told = []
    for job, shares in sorted(held.items()):
        parts = (("" if share >= 1 else f"{share:g} of ") + ranges(devices) for share, devices in shares.items())
        kept = [f"cores {printable(cores[job])}"] if cores.get(job) else []
        told.append(f"{job} ({', '.join([*parts, *kept])})")
    return ", ".join(told)


def ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers as `0-3, 5`, with neighbours joined."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def cluster_table(cluster: ClusterView) -> RenderableType:
    """Return a table of nodes with what runs on them, and the last round in a line."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    pools = any(node["pool"] for node in cluster["nodes"])
    named = any(node["machine"] not in ("", node["id"]) for node in cluster["nodes"])
    for name in (
        "NODE",
        *(["MACHINE"] if named else []),
        *(["POOL"] if pools else []),
        "GPU TYPE",
        *_AMOUNTS,
        "JOBS (ON GPUS)",
    ):
        table.add_column(name, overflow="fold")
    for node in cluster["nodes"]:
        label = f" ({EMULATED})" if node["emulated"] else ""
        pool = [_line(node["pool"] or "-")] if pools else []
        table.add_row(
            node["id"][:12],
            *([_line(node["machine"])] if named else []),
            *pool,
            _line(node["gpu_type"] + label),
            "closed" if node.get("closed") else f"{node['free_gpus']}/{node['gpus']}",
            _line(free_cpus(node)),
            _free(node["free_memory_gib"], node["memory_gib"]),
            _line(tenants(node) or "-"),
        )
    lines: list[RenderableType] = [
        table if cluster["nodes"] else Text("no GPU nodes are awake" if cluster["asleep"] else "no GPU nodes")
    ]
    if cluster["asleep"]:
        lines += [Text(""), machines_table(cluster["asleep"], time.time())]
    if cluster["saved_kwh"]:
        lines.append(Text(f"machines that slept have saved about {shown(round(cluster['saved_kwh'], 3))} kWh"))
    if (scaling := cluster.get("scaling")) is not None:
        lines += [Text(""), node_types_table(scaling), *(_line(text) for text in scaling["lines"])]
    every = f"{cluster['round_interval_s']:g} s"
    took = (
        f", the last one was solved in {shown(1000 * cluster['solver_s'])} ms"
        if cluster["solver_s"]  # 0 if there was nothing to solve, or the policy solves nothing
        else ""
    )
    proven = _proven(cluster["gap"])
    lines.append(
        Text(f"\npolicy {cluster['policy']}, a round every {every}, {cluster['rounds']} so far{took}{proven}")
    )
    if cluster["phases"]:
        lines.append(Text(_phases(cluster["phases"])))
    if cluster["prices"]:
        prices = ", ".join(f"{t} {shown(p)}" for t, p in sorted(cluster["prices"].items()))
        lines.append(Text(f"price of one GPU this round: {prices}"))
    lines += [_line(note) for note in cluster["notes"]]
    if cluster["events"]:
        lines.append(Text("latest events"))
        lines += [Text(event_line(event, with_day=True)) for event in cluster["events"]]
    if any(node["emulated"] for node in cluster["nodes"]):
        lines.append(
            Text("emulated nodes run on CPU at the pace of their GPU type; their speed is not this machine's")
        )
    return Group(*lines)


def node_types_table(scaling: ScalingView) -> RenderableType:
    """Return a table of the node types that can be bought."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODE TYPE", "GPUS", "DOLLARS/H", "THERE", "ASKED FOR", "MIN-MAX", "VALUE/DOLLAR"):
        table.add_column(name, overflow="fold")
    for row in scaling["types"]:
        value = row["value_per_dollar"]
        table.add_row(
            _line(row["type"] + (" (spot)" if row["spot"] else "")),
            _line(f"{row['gpus']} {row['gpu_type']}"),
            f"{row['price_per_h']:g}",
            str(row["here"]) + (f" ({row['leaving']} leave)" if row["leaving"] else ""),
            str(row["asked"]),
            f"{row['min']}-{row['max']}",
            "-" if value is None else shown(value),
        )
    return table


def machines_table(machines: Sequence[MachineRow], now: float) -> Table:
    """Return a table of machines: their state, since when, and until when nobody is likely to need them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    pools = any(row["pool"] for row in machines)
    columns = ("MACHINE", *(["POOL"] if pools else []), "GPU TYPE", "GPUS", "STATE", "FOR", "UNTIL ABOUT", "WHY")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in machines:
        label = f" ({EMULATED})" if row["emulated"] else ""
        since, until = row["since_s"], row["until_s"]
        table.add_row(
            _line(row["machine"]),
            *([_line(row["pool"] or "-")] if pools else []),
            _line(row["gpu_type"] + label),
            str(row["gpus"]),
            Text(_state(row), MACHINE_STYLES.get("leaving" if row.get("closed") else row["state"], "")),
            "-" if since is None else duration(max(now - since, 0.0)),
            "-" if until is None else time.strftime("%H:%M", time.localtime(until)),
            _line("; ".join(filter(None, (row.get("closed"), row["reason"]))) or "-"),
        )
    return table


def _state(row: MachineRow) -> str:
    """Return the state of a machine, and whether it takes new work."""
    closed = ("draining" if row["leaves"] else "cordoned") if row.get("closed") else ""
    return ", ".join(filter(None, (row["state"], closed))) + (" (kept)" if row["keep"] else "")


def _phases(phases: Mapping[str, PhaseRow]) -> str:
    """Return how long the last round took, in all and by phase."""
    parts = ", ".join(f"{name} {_ms(row['last_s'])}" for name, row in phases.items())
    return f"the last round took {_ms(sum(row['last_s'] for row in phases.values()))} ms: {parts}"


def _ms(seconds: float) -> str:
    """Format milliseconds, with a digit after the point where they are few."""
    return f"{1000 * seconds:.{int(seconds < 0.01)}f}"


def _proven(gap: float | None) -> str:
    if gap is None:
        return ""
    best = f"within {100 * gap:.2g} % of the best" if gap > 1e-9 else "the best"
    return f"; its plan is proven {best}"


def _ends(job: JobRow, now: float) -> list[tuple[str, str]]:
    """Return when a job starts and ends, as predicted or by its last reports."""
    ends = left(job, now)
    return lines(job, now) or ([("ends in", ends)] if ends != "-" else [])


def details(job: JobDetails) -> RenderableType:
    """Return all that is known of a job, as a table and lists."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows: list[tuple[str, str]] = [
        ("job", job["id"]),
        ("status", _status(job)),
        *_program(job["spec"], emulated=job["emulated"]),
        ("GPUs", where(job) + (f" on {', '.join(_on_nodes(job))}" if job["nodes"] else "")),
        ("batch size", _batch(job)),
        (
            "learning rate",
            shown(job["lr"]) + (f" (gain {shown(job['gain'])})" if job["gain"] is not None else ""),
        ),
        ("progress", f"{progress(job)}, {job['steps']} steps" if job["steps"] else progress(job)),
        *([("foretold", printable(foretold))] if (foretold := job.get("foretold")) else []),
        *_ends(job, time.time()),
        *deadline_rows(job, time.time()),
        ("metrics", metrics_with_places(job)),
        *([("target", printable(job["target"]["text"]))] if "target" in job else []),
        *([("not taken", _refused(refused))] if (refused := job.get("refused_statuses")) else []),
        ("folder", printable(job["folder"] or "-")),
        ("outputs", printable(job["outputs"] or "-")),
        *usage_rows(job),
        ("age", duration((job["finished_s"] or time.time()) - job["submitted_s"])),
        ("interruptions", interruptions(job)),
    ]
    for name, value in rows:
        table.add_row(name, _line(value))
    parts: list[RenderableType] = [table]
    if job["profiles"]:
        parts.append(Text("\nGPU types", "bold"))
        parts += [_line(f"{gpu_type}: {state}") for gpu_type, state in sorted(job["profiles"].items())]
    if job.get("closed"):
        parts.append(Text("\nnodes that take no new work", "bold"))
        parts += [_line(sentence) for sentence in job["closed"]]
    if job.get("habits"):
        parts.append(Text("\nwhat its script does", "bold"))
        parts += [_line(habit) for habit in job["habits"]]
    if job["events"]:
        parts.append(Text("\nevents", "bold"))
        parts += [Text(event_line(event)) for event in job["events"]]
    if job.get("traceback"):
        parts += [Text("\ntraceback of the script's last error", "bold"), Text(plain(job["traceback"]))]
    return Group(*parts)


def _program(spec: Mapping[str, Any], *, emulated: bool) -> list[tuple[str, str]]:
    """Return what the job runs, and by which door it came where it is not the native one."""
    speed = "; it runs at this machine's speed, not at that of the emulated GPUs" if emulated else ""
    if (command := spec.get("command")) and not spec.get("script"):
        rows = [("command", printable(" ".join(map(_quoted, command))))]
    else:
        rows = [("script", printable(" ".join([spec["script"], *spec.get("args", [])])))]
    sizes = spec.get("sizes")
    if sizes is not None:
        by_type = sizes.items() if isinstance(sizes, Mapping) else [("", sizes)]
        told = "; ".join(f"{t} {', '.join(map(str, counts))}".strip() for t, counts in by_type)
        rows.append(("door", f"restarting, at sizes {told}{speed}"))
    elif spec.get("elastic") is False:
        rows.append(("door", f"plain, at a fixed size{speed}"))
    return rows


def _refused(found: RefusedStatuses) -> str:
    """Return how many statuses of the program were not taken, and why the last one was not."""
    count, last = (
        found["count"],
        printable(found["last"].removeprefix("status: ").removesuffix("; it was left out")),
    )
    return f"{count} status{'es' * (count != 1)} of its progress; {'the last one: ' * (count > 1)}{last}"


def _quoted(word: str) -> str:
    return shlex.quote(word) if len(word) < 60 else f"{word[:57]}…"


def usage_rows(job: JobRow) -> list[tuple[str, str]]:
    """Return rows that tell how much a job used its GPUs, as far as that is known."""
    rows = [("GPU use", usage_line(gpu_type, use)) for gpu_type, use in job.get("usage", {}).items()]
    idle = job.get("idle_gpu_minutes")
    return [*rows, *([("idle GPUs", f"{idle:.0f} GPU-minutes used less than 5 %")] if idle and idle >= 1 else [])]


def usage_line(gpu_type: str, use: UsageRow) -> str:
    """Format `a100 (emulated): 83 % busy, 79 % recently; memory 12 % busy, 10.5 GiB; over 1h10m of one GPU`."""
    mean, recent = use["mean"], use["recent"]
    label = f" ({EMULATED})" if use["emulated"] else ""
    busy = f"{_percent(mean['gpu_util'])} busy, {_percent(recent['gpu_util'])} recently"
    of_memory = [
        *([f"{_percent(mean['memory_util'])} busy"] if mean["memory_util"] is not None else []),
        *([f"{mean['memory_gib']:.1f} GiB"] if mean["memory_gib"] is not None else []),
    ]
    memory = f"; memory {', '.join(of_memory)}" if of_memory else ""
    return f"{gpu_type}{label}: {busy}{memory}; over {duration(use['gpu_s'])} of one GPU"


def _percent(part: float | None) -> str:
    return "unknown" if part is None else f"{part:.0%}"


def _status(job: JobRow) -> str:
    """Format the status with its reason, which may begin with the same word."""
    status, reason = job["status"], job["reason"]
    return reason if reason.startswith(status) else f"{status}: {reason}" if reason else status


def _on_nodes(job: JobDetails) -> list[str]:
    """Format each node with the job's GPUs there as `0123456789ab (0-1)`."""
    devices = job["devices"]
    return [f"{node[:12]} ({ranges(devices[node])})" if node in devices else node[:12] for node in job["nodes"]]


def interruptions(job: JobRow) -> str:
    """Format what interrupted a job's training, with a count of each kind."""
    counts = (
        ("resized or moved", job["resizes"]),
        ("evicted", job["evictions"]),
        ("recovered from lost workers", job["recoveries"]),
        ("failed in the script", job["failures"]),
    )
    told = [f"{what} {'once' if n == 1 else f'{n} times'}" for what, n in counts if n]
    return ", ".join(told) or "none"


def _batch(job: JobRow) -> str:
    if not job["batch_size"]:
        return "-"
    passes = (job["accumulation"] or 0) + 1
    if job["gpus"]:  # a script may add up several batches per step, which takes more passes
        passes = max(passes, math.ceil(job["batch_size"] / max(1, (job["local_bsz"] or 1) * job["gpus"])))
    steps = f"{passes} pass{'es' * (passes > 1)} a step"
    return f"{job['batch_size']} ({job['local_bsz']} per replica and pass, {steps})"


def event_line(event: Mapping[str, object], *, with_day: bool = False) -> str:
    """Return the local time and the text of an event."""
    form = "%Y-%m-%d %H:%M:%S" if with_day else "%H:%M:%S"
    clock = time.strftime(form, time.localtime(float(str(event["time_s"]))))
    return f"{clock}  {printable(str(event['text']))}"


def change_lines(before: Mapping[str, JobRow], after: Iterable[JobRow]) -> list[str]:
    """Return a line for each change of a job between two looks, for logs and pipes without a table."""
    lines = []
    for job in after:
        old = before.get(job["id"])
        name, ended = job["id"], None
        measured = job["status"] == "measuring" and old is not None and old["reason"] != job["reason"]
        if old is None or old["status"] != job["status"] or measured:
            line = f"{name}: {job['status']}" + (f" ({printable(job['reason'])})" if job["reason"] else "")
            if job["finished_s"] is None:
                lines.append(line)
            else:
                ended = line  # the end comes last, after other changes of this look
        # A job that starts has GPUs already. For a user who waits, it has none until it runs.
        had = where(old) if old is not None and old["phase"] == "running" else "-"
        if job["phase"] == "running" and where(job) not in (had, "-"):
            lines.append(f"{name}: {_from(had)}{where(job)}")
        if job["batch_size"] and (old is None or old["batch_size"] != job["batch_size"]):
            first = str(old["batch_size"] or "-") if old else "-"
            lines.append(f"{name}: batch size {_from(first)}{job['batch_size']}, learning rate {shown(job['lr'])}")
        tenth, before_it = int(10 * job["fraction"]), int(10 * old["fraction"]) if old is not None else 0
        if tenth > before_it and ended is None:
            ends = left(job, time.time())
            told = [progress(job), metrics(job), f"ends in {ends}" if ends != "-" else "-"]
            lines.append(f"{name}: " + ", ".join(text for text in told if text != "-"))
        if ended:
            lines.append(ended)
    return lines


def _from(before: str) -> str:
    """Return what comes before a new value; nothing where it is the first."""
    return "" if before == "-" else f"{before} -> "


class PlainConsole(Console):
    """A console on which texts are texts: no markup, no names of emojis, and no control characters but its own."""

    def __init__(self, **told: Any) -> None:
        super().__init__(markup=False, emoji=False, **told)

    def render_str(self, text: str, **told: Any) -> Text:
        """Return a text to be shown, so that columns are as wide as what is shown."""
        return super().render_str(plain(text), **told)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield what is shown. What moves the cursor of a live table is no text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))


def console() -> Console:
    """Return standard output; if it is no terminal, it is as wide as a table needs."""
    found = PlainConsole()
    return found if found.is_terminal else PlainConsole(width=200, highlight=False)
