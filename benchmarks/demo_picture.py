"""Draw what a run of `make demo` did: who held which GPUs when, and how its size and type changed.

    python -m benchmarks.demo_picture [RECORDS] [--out docs/pictures/demo.svg]

`RECORDS` is what the demo writes, `out/demo.json` unless told otherwise. The picture follows the reader's
light or dark scheme.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from coadapt.core.emulated_nodes import parse

from examples.demo.stage import CLUSTER

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "out" / "demo.json"
PICTURE = ROOT / "docs" / "pictures" / "demo.svg"

WIDTH, LEFT, RIGHT, TOP = 960, 138, 112, 78  # pixels; the plot lies between the margins
LANE, GPU, GAP = 40, 7.5, 10  # height of a lane and of one GPU in it; between two parts
STRIP = 9.0  # height of one GPU in the strips at the foot
PROFILE = 4.0  # height of a profile run
MARKS = {"grew": "M-4 3 L4 3 L0 -4 Z", "shrank": "M-4 -3 L4 -3 L0 4 Z", "moved": "M-4 0 L0 -4 L4 0 L0 4 Z"}
COLOURS = ("#2f7fd1", "#2a9d6e", "#e08a1e", "#b65fc4", "#d1495b", "#6c8ebf")  # of GPU types, in order of name
STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; } .soft { fill: #59636e; font-size: 11px; }
.card { fill: #ffffff; stroke: #d1d9e0; } .line { stroke: #d1d9e0; } .life { stroke: #818b98; }
.mark { fill: #1f2328; stroke: #ffffff; stroke-width: 0.8; } .count { fill: #ffffff; font-weight: 600; }
@media (prefers-color-scheme: dark) {
text, .mark { fill: #f0f6fc; } .soft { fill: #9198a1; } .card { fill: #0d1117; stroke: #3d444d; }
.line { stroke: #3d444d; } .life { stroke: #656c76; } .mark { stroke: #0d1117; } .count { fill: #ffffff; } }
"""


@dataclass(frozen=True)
class Held:
    """GPUs of one type that a job trained on, from `start_s` to `end_s`, in seconds of the run."""

    start_s: float
    end_s: float
    gpu_type: str
    gpus: int


@dataclass(frozen=True)
class Lane:
    """One job: its life, what it trained on, its profile runs, and its first and last batch size."""

    job: str
    start_s: float
    end_s: float
    held: tuple[Held, ...]
    profiles: tuple[Held, ...]
    batches: tuple[int, ...]

    @property
    def changes(self) -> Iterator[tuple[float, str]]:
        """Yield when it grew, shrank or moved to another GPU type, in order."""
        for old, new in pairwise(self.held):
            if old.gpu_type != new.gpu_type:
                yield new.start_s, "moved"
            elif old.gpus != new.gpus:
                yield new.start_s, "grew" if new.gpus > old.gpus else "shrank"


def lanes(told: dict[str, Any]) -> list[Lane]:
    """Return the jobs of a run in the order of their submission.

    Raises: ValueError where the records have no jobs or no timeline, in one sentence.
    """
    jobs, timeline = told.get("jobs") or [], told.get("timeline") or []
    if not jobs or not timeline:
        raise ValueError("records: no jobs or no timeline; what `make demo` writes to out/demo.json is accepted")
    began_s = min(job["submitted_s"] for job in jobs)
    last_s = max(interval["end_s"] or interval["start_s"] for interval in timeline)
    last_s = max([last_s, *(job["finished_s"] or 0.0 for job in jobs)])

    def lane(job: dict[str, Any]) -> Lane:
        mine = sorted((i for i in timeline if i["job_id"] == job["id"]), key=lambda i: i["start_s"])
        spans = [
            (i, Held(i["start_s"] - began_s, (i["end_s"] or last_s) - began_s, i["gpu_type"], i["gpus"]))
            for i in mine
        ]
        sizes = [i["batch_size"] for i in mine if i["phase"] == "running" and i["batch_size"]]
        return Lane(
            job["id"],
            job["submitted_s"] - began_s,
            (job["finished_s"] or last_s) - began_s,
            tuple(joined(held for i, held in spans if i["phase"] == "running")),
            tuple(held for i, held in spans if i["phase"] == "profiling"),
            tuple(dict.fromkeys((sizes[0], sizes[-1]))) if sizes else (),
        )

    return [lane(job) for job in sorted(jobs, key=lambda job: job["submitted_s"])]


def joined(spans: Iterable[Held]) -> list[Held]:
    """Return spans without the seams between those of the same GPUs, such as where only the batch changed."""
    found: list[Held] = []
    for span in spans:
        last = found[-1] if found else None
        if last and (last.gpu_type, last.gpus, last.end_s) == (span.gpu_type, span.gpus, span.start_s):
            found[-1] = Held(last.start_s, span.end_s, span.gpu_type, span.gpus)
        else:
            found.append(span)
    return found


def in_use(found: Sequence[Lane], gpu_type: str) -> list[tuple[float, float, int]]:
    """Return (from, to, GPUs) in seconds: how many GPUs of a type jobs held, profile runs included."""
    steps: Counter[float] = Counter()
    for lane in found:
        for span in (*lane.held, *lane.profiles):
            if span.gpu_type == gpu_type:
                steps[span.start_s] += span.gpus
                steps[span.end_s] -= span.gpus
    moments, used, spans = sorted(steps), 0, []
    for now, following in pairwise(moments):
        used += steps[now]
        if used > 0:
            spans.append((now, following, used))
    return spans


def svg(told: dict[str, Any], nodes: str = CLUSTER) -> str:
    """Return the picture of a run on these emulated nodes as one SVG document."""
    found = lanes(told)
    sizes: Counter[str] = Counter()
    for node in parse(nodes):
        sizes[node.gpu_type] += node.gpus
    colours = dict(zip(sorted(sizes), COLOURS, strict=False))
    end_s = max(lane.end_s for lane in found)
    foot = TOP + LANE * len(found) + GAP
    bottom = foot + sum(STRIP * gpus + GAP for gpus in sizes.values())
    height = bottom + 34

    def x(time_s: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * time_s / end_s, 1)

    def bar(start_s: float, end_s: float, top: float, tall: float, paint: str) -> str:
        wide = max(round(x(end_s) - x(start_s), 1), 0.8)
        return f'<rect x="{x(start_s)}" y="{round(top, 1)}" width="{wide}" height="{round(tall, 1)}" {paint}/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img"'
        f' aria-label="{escape(summary(found, sizes))}">',
        f"<style>{STYLE}</style>",
        "<defs>",
        *(
            f'<pattern id="p-{escape(name)}" width="5" height="5" patternUnits="userSpaceOnUse"'
            f' patternTransform="rotate(45)"><rect width="2" height="5" fill="{colour}"/></pattern>'
            for name, colour in colours.items()
        ),
        "</defs>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>',
        f'<text class="title" x="16" y="26">{escape(summary(found, sizes))}</text>',
        *legend(colours),
    ]
    for minute in range(int(end_s // 60) + 1):
        at = x(60.0 * minute)
        parts.append(f'<line class="line" x1="{at}" x2="{at}" y1="{TOP - 6}" y2="{bottom:g}"/>')
        parts.append(f'<text class="soft" x="{at}" y="{bottom + 16:g}" text-anchor="middle">{minute} min</text>')
    for number, lane in enumerate(found):
        base = TOP + LANE * (number + 1) - 4
        parts.append(f'<text x="16" y="{base - 4}">{escape(lane.job)}</text>')
        parts.append(f'<line class="life" x1="{x(lane.start_s)}" x2="{x(lane.end_s)}" y1="{base}" y2="{base}"/>')
        for place, run in enumerate(stacked(lane.profiles)):
            for span in run:
                paint = f'fill="url(#p-{escape(span.gpu_type)})"'
                parts.append(bar(span.start_s, span.end_s, base - (PROFILE + 1) * (place + 1), PROFILE, paint))
        for span in lane.held:
            tall = GPU * span.gpus
            parts.append(bar(span.start_s, span.end_s, base - tall, tall, f'fill="{colours[span.gpu_type]}"'))
            if x(span.end_s) - x(span.start_s) > 16 and span.gpus > 1:
                middle = (x(span.start_s) + x(span.end_s)) / 2
                parts.append(
                    f'<text class="count" x="{middle:.1f}" y="{base - tall / 2 + 4:.1f}"'
                    f' text-anchor="middle">{span.gpus}</text>'
                )
        for time_s, kind in lane.changes:
            parts.append(f'<path class="mark" transform="translate({x(time_s)} {base})" d="{MARKS[kind]}"/>')
        sizes_told = " → ".join(map(str, lane.batches)) or "-"
        parts.append(f'<text class="soft" x="{WIDTH - RIGHT + 10}" y="{base - 4}">batch {sizes_told}</text>')
    top = foot
    for name in sorted(sizes):
        tall = STRIP * sizes[name]
        parts.append(f'<text x="16" y="{top + tall / 2 + 4:g}">{sizes[name]} x {escape(name)}</text>')
        parts.append(bar(0.0, end_s, top, tall, 'class="line" fill="none"'))
        for start_s, until_s, used in in_use(found, name):
            high = STRIP * min(used, sizes[name])
            parts.append(bar(start_s, until_s, top + tall - high, high, f'fill="{colours[name]}"'))
        parts.append(f'<text class="soft" x="{WIDTH - RIGHT + 10}" y="{top + tall / 2 + 4:g}">GPUs in use</text>')
        top += tall + GAP
    return "\n".join([*parts, "</svg>", ""])


def stacked(spans: Sequence[Held]) -> list[list[Held]]:
    """Return rows of spans of which none overlaps another in its row."""
    rows: list[list[Held]] = []
    for span in sorted(spans, key=lambda span: (span.start_s, span.gpu_type)):
        row = next((row for row in rows if row[-1].end_s <= span.start_s), None)
        if row is None:
            rows.append([span])
        else:
            row.append(span)
    return rows


def legend(colours: dict[str, str]) -> Iterator[str]:
    """Yield the line below the title: colours, the hatch of profile runs, and the marks of changes."""
    at = 16.0
    for name, colour in colours.items():
        yield f'<rect x="{at:g}" y="39" width="14" height="12" fill="{colour}"/>'
        yield f'<text x="{at + 20:g}" y="49">{escape(name)}</text>'
        at += 30 + 8 * len(name)
    first = next(iter(colours))
    yield f'<rect x="{at:g}" y="41" width="22" height="8" fill="url(#p-{escape(first)})"/>'
    yield f'<text x="{at + 28:g}" y="49">being measured</text>'
    at += 142
    for kind, text in (("grew", "more GPUs"), ("shrank", "fewer GPUs"), ("moved", "another GPU type")):
        yield f'<path class="mark" transform="translate({at:g} 45)" d="{MARKS[kind]}"/>'
        yield f'<text x="{at + 9:g}" y="49">{text}</text>'
        at += 30 + 7 * len(text)
    yield f'<text class="soft" x="{at:g}" y="49">height: GPUs of the job</text>'


def summary(found: Sequence[Lane], sizes: Counter[str]) -> str:
    """Return the title: how many jobs on which GPUs, and how often they changed."""
    gpus = ", ".join(f"{count} {name}" for name, count in sorted(sizes.items()))
    changes = sum(1 for lane in found for _ in lane.changes)
    return f"{len(found)} jobs on {gpus} (emulated): {changes} resizes and moves while they train"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.demo_picture", description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="?", type=Path, default=RECORDS, help="default: out/demo.json")
    parser.add_argument("--out", type=Path, default=PICTURE, help="default: docs/pictures/demo.svg")
    options = parser.parse_args(arguments)
    if not options.records.is_file():
        parser.error(f"records: {options.records} does not exist; `make demo` writes it")
    try:
        picture = svg(json.loads(options.records.read_text()))
    except ValueError as error:
        parser.error(str(error))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(picture)
    print(options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
