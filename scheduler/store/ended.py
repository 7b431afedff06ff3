"""Jobs that have ended, with the few facts that learners and services look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, func, select

from ...core.job import EXPERIMENT, Phase
from ...core.usage import UsageOn
from ...estimators.curves.curve import NO_CURVE, MetricCurve
from .intervals import RUNNING
from .schema import intervals, job_files, job_reports, jobs

ENDED = tuple(phase.value for phase in Phase if phase.is_terminal)


@dataclass(frozen=True)
class Ended:
    """An ended job.

    served_s: how long it trained. samples: how far it came; None: it did not say.
    usage: of GPUs, by GPU type, as far as it is known.
    curve: of the metric that its target named.
    started_s: when it first got GPUs; None: it never did. tag: its label `experiment`.
    """

    id: str
    name: str
    owner: str
    pool: str
    gpus: int
    cpus: float
    phase: Phase
    submitted_s: float
    finished_s: float
    script_key: str
    served_s: float
    samples: float | None
    usage: Mapping[str, UsageOn]
    curve: MetricCurve = NO_CURVE
    team: str = ""
    started_s: float | None = None
    tag: str = ""

    @property
    def taught(self) -> bool:
        """Whether it succeeded, and its script is known."""
        return self.phase is Phase.SUCCEEDED and bool(self.script_key)


def newest(connection: Connection, most: int) -> list[Ended]:
    """Return the newest ended jobs, in submission order."""
    end_s = case((intervals.c.end_s > jobs.c.finished_s, jobs.c.finished_s), else_=intervals.c.end_s)
    served = (
        select(func.coalesce(func.sum(end_s - intervals.c.start_s), 0.0))
        .where(intervals.c.job_id == jobs.c.id, intervals.c.phase == RUNNING, intervals.c.end_s.is_not(None))
        .where(intervals.c.start_s < jobs.c.finished_s)
        .scalar_subquery()
    )
    # Job files are long, and few name an experiment.
    labelled = case((job_files.c.spec.contains(f'"{EXPERIMENT}":"'), job_files.c.spec), else_="")
    columns = (job_files.c.script_key, job_reports.c.report, served.label("served_s"), labelled.label("labelled"))
    query = (
        select(jobs, *columns)
        .join(job_files, (job_files.c.job_id == jobs.c.id) & (job_files.c.file == jobs.c.file))
        .outerjoin(job_reports, job_reports.c.job_id == jobs.c.id)
        .where(jobs.c.phase.in_(ENDED), jobs.c.finished_s.is_not(None))
        .order_by(jobs.c.number.desc())
        .limit(most)
    )
    return [_ended(row) for row in reversed(connection.execute(query).all())]


def _ended(row: Any) -> Ended:
    told = _told(row.report)
    return Ended(
        row.id,
        row.name,
        row.owner,
        row.pool,
        row.asked_gpus,
        row.asked_cpus,
        Phase(row.phase),
        row.submitted_s,
        row.finished_s,
        row.script_key,
        row.served_s,
        _samples(told),
        _usage(told),
        _curve(told),
        row.team,
        row.started_s,
        _tag(row.labelled),
    )


def _told(report: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(report or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _tag(spec: str) -> str:
    try:
        return str(json.loads(spec or "{}").get("labels", {}).get(EXPERIMENT, ""))
    except (ValueError, AttributeError):
        return ""


def _samples(told: Mapping[str, Any]) -> float | None:
    try:
        return float(told["report"]["progress_samples"]) or None
    except (ValueError, KeyError, TypeError):
        return None


def _usage(told: Mapping[str, Any]) -> dict[str, UsageOn]:
    try:
        return {gpu_type: UsageOn.from_row(use) for gpu_type, use in told.get("usage", {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _curve(told: Mapping[str, Any]) -> MetricCurve:
    try:
        return MetricCurve.from_row(told.get("curve", {}))
    except (ValueError, KeyError, TypeError, AttributeError):
        return NO_CURVE
