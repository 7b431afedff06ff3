"""The first page: what the cluster does, in one sentence, its nodes as squares, and who waits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..core.schemas import ClusterView, HealthView, JobRow, NodeRow, PricesView
from .colours import colours_of
from .predicted import next_start
from .sparks import steps
from .words import count

TRAINS = ("running", "starting", "restarting", "leaving")
WAITS = ("waiting", "evicted")
OTHERS = "others"  # the name of jobs that one may not see, or others@TEAM


@dataclass(frozen=True)
class Square:
    """One GPU. `job`: who is on it; "": nobody. `more`: how many others share it."""

    job: str
    name: str
    more: int = 0

    @property
    def others(self) -> bool:
        return is_others(self.job)


@dataclass(frozen=True)
class OnNode:
    """A job on a node."""

    job: str
    name: str
    gpus: int

    @property
    def others(self) -> bool:
        return is_others(self.job)


@dataclass(frozen=True)
class Card:
    """A node as it is drawn."""

    machine: str
    gpu_type: str
    pool: str
    emulated: bool
    closed: str
    free: int
    gpus: int
    squares: tuple[Square, ...]
    jobs: tuple[OnNode, ...]


@dataclass(frozen=True)
class TypeLine:
    """A GPU type in the legend. `price`: of one of its GPUs in the last round; None: it has none.

    day: points of the curve of its price over a day; "": there is none. most: the highest price of that day.
    """

    gpu_type: str
    held: int
    gpus: int
    price: float | None
    day: str
    most: float | None


@dataclass(frozen=True)
class Alert:
    """What needs a person. `link`: where to look at it; "": nowhere else."""

    text: str
    link: str = ""


@dataclass(frozen=True)
class ClusterPage:
    """All that the page shows."""

    answer: str
    alerts: tuple[Alert, ...]
    notes: tuple[str, ...]
    bought: tuple[str, ...]  # on nodes that are bought: their cost first; empty: none are
    types: tuple[TypeLine, ...]
    cards: tuple[Card, ...]
    asleep: tuple[str, ...]
    colours: Mapping[str, int]
    waiting: tuple[JobRow, ...]
    more_waiting: int
    policy: str


def cluster_page(
    view: ClusterView,
    health: HealthView,
    statuses: Mapping[str, int],
    jobs: Mapping[str, Any],
    prices: PricesView,
) -> ClusterPage:
    """Return the page.

    Args:
        statuses: how many jobs of the whole cluster are in each, of those that have not ended.
        jobs: `names` by id of those that one may see, rows that are `waiting` and `aside`, and how many `asides`.
        prices: of GPU types, over a day.
    """
    nodes = sorted(view["nodes"], key=lambda node: (node["gpu_type"], node["machine"]))
    names, waiting = jobs["names"], jobs["waiting"]
    alerts = (*_alerts(health), *_alerts_of_jobs(jobs["aside"], jobs["asides"]), *_alerts_of_machines(view))
    return ClusterPage(
        answer=_answer(nodes, statuses, next_start(waiting)),
        alerts=alerts,
        notes=tuple(note for note in view["notes"] if note not in health["notes"]),
        bought=tuple(scaling["lines"]) if (scaling := view.get("scaling")) is not None else (),
        types=_types(nodes, view["prices"], prices),
        cards=tuple(_card(node, names) for node in nodes),
        asleep=tuple(f"{row['machine']}: {row['state']}" for row in view["asleep"]),
        colours=colours_of([node["gpu_type"] for node in nodes] + [row["gpu_type"] for row in view["asleep"]]),
        waiting=tuple(waiting),
        more_waiting=max(_sum(statuses, WAITS) - len(waiting), 0),
        policy=view["policy"],
    )


def _answer(nodes: Sequence[NodeRow], statuses: Mapping[str, int], starts: str) -> str:
    """Return the sentence that answers what the cluster does. `starts`: when the next job starts; "": unknown."""
    gpus, free = sum(node["gpus"] for node in nodes), sum(node["free_gpus"] for node in nodes)
    if not nodes:
        waits = _sum(statuses, WAITS)
        return "No node is here yet." + (f" {count(waits, 'job waits', 'jobs wait')}." if waits else "")
    trains, measured = _sum(statuses, TRAINS), statuses.get("measuring", 0)
    parts = [f"{count(trains, 'job trains', 'jobs train')} on {gpus - free} of {count(gpus, 'GPU')}"]
    if measured:
        parts.append(f"{measured} {'is' if measured == 1 else 'are'} being measured")
    for words, verb, verbs in ((WAITS, "waits", "wait"), (("paused",), "is paused", "are paused")):
        if number := _sum(statuses, words):
            parts.append(f"{number:,} {verb if number == 1 else verbs}")
    if starts:
        parts.append(starts)
    if statuses.get("quarantined"):
        parts.append(f"{statuses['quarantined']} in quarantine")
    return "; ".join(parts) + "."


def _alerts(health: HealthView) -> Iterable[Alert]:
    if health["degraded"] is not None:
        yield Alert(f"Nothing can be stored: {health['degraded']}. Jobs train on; changes are refused.")
    if health["trouble"]:
        yield Alert(f"The last tick failed and is tried again: {health['trouble']}")
    yield from (Alert(note) for note in health["notes"] if not health["degraded"] and not health["trouble"])


def _alerts_of_jobs(aside: Sequence[JobRow], number: int) -> Iterable[Alert]:
    for job in aside:
        yield Alert(f"{job['name']} takes part in no round: {job['reason']}.", f"/jobs/{quote(job['id'])}")
    if number > len(aside):
        yield Alert(f"{number - len(aside)} more jobs take part in no round.", "/jobs")


def _alerts_of_machines(view: ClusterView) -> Iterable[Alert]:
    for machine in view["asleep"]:
        if machine["state"] == "failed":
            yield Alert(f"{machine['machine']} did not wake: {machine['reason']}", "/nodes")


def _types(nodes: Sequence[NodeRow], prices: Mapping[str, Any], day: PricesView) -> tuple[TypeLine, ...]:
    known = {name: float(price) for name, price in prices.items() if isinstance(price, int | float)}
    lines = []
    for gpu_type in sorted({node["gpu_type"] for node in nodes}):
        of_type = [node for node in nodes if node["gpu_type"] == gpu_type]
        gpus, free = sum(n["gpus"] for n in of_type), sum(n["free_gpus"] for n in of_type)
        found = day["prices"].get(gpu_type, [])
        points = steps(found, found[0][0], day["until_s"]) if len(found) > 1 else ""
        most = max((price for _, price in found), default=None)
        lines.append(TypeLine(gpu_type, gpus - free, gpus, known.get(gpu_type), points, most))
    return tuple(lines)


def _card(node: NodeRow, names: Mapping[str, str]) -> Card:
    squares = []
    for device in node["devices"]:
        tenants = sorted(device["tenants"])
        job = tenants[0] if tenants else ""
        squares.append(Square(job, _name(job, names), max(len(tenants) - 1, 0)))
    squares.sort(key=lambda square: (not square.job, square.job))
    return Card(
        machine=node["machine"],
        gpu_type=node["gpu_type"],
        pool=node["pool"],
        emulated=node["emulated"],
        closed=node["closed"],
        free=node["free_gpus"],
        gpus=node["gpus"],
        squares=tuple(squares),
        jobs=tuple(OnNode(job, _name(job, names), gpus) for job, gpus in sorted(node["jobs"].items())),
    )


def _name(job: str, names: Mapping[str, str]) -> str:
    if not is_others(job):
        return names.get(job, job)
    team = job.partition("@")[2]
    return f"team {team}" if team else "another user's job"


def is_others(job: str) -> bool:
    """Return whether a job is one that may not be seen."""
    return job.partition("@")[0] == OTHERS


def _sum(statuses: Mapping[str, int], words: Iterable[str]) -> int:
    return sum(statuses.get(word, 0) for word in words)
