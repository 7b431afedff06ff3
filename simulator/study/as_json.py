"""A study as JSON values."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from .jobs import STATES
from .study import Study
from .time_bins import HOUR_S

_LEFT_OUT = ("jobs", "course", "implications", "unknown", "capacity", "name", "users", "virtual_clusters")


def as_json(study: Study) -> dict[str, Any]:
    """Return all that a study tells, with `null` for what is not known. Lists of VCs and users are whole."""
    found: dict[str, Any] = {"trace": study.name, "jobs": len(study.jobs), "began_s": study.jobs.began_s}
    found["gpus_of_cluster"] = None if study.capacity is None else study.capacity.gpus
    found["use_is_demand"] = not study.jobs.waits_known
    found["utilisation"] = _plain(study.utilisation)
    found |= {f.name: _plain(getattr(study, f.name)) for f in fields(study) if f.name not in _LEFT_OUT}
    if study.final_states is not None:
        found["final_states"]["names"] = [str(state) for state in STATES]
    if study.course is not None:
        found["course"] = {
            "start_s": _plain(study.course.bins.edges_s[:-1]),
            "use": _plain(study.course.use),
            "submissions_per_hour": _plain(study.course.submissions / study.course.bins.width_s * HOUR_S),
        }
    for name in ("virtual_clusters", "users"):
        of = getattr(study, name)
        found[name] = None if of is None else {k: v for k, v in _plain(of).items() if k != "hours"}
    found["unknown"] = list(study.unknown)
    found["implications"] = [_plain(one) | {"verdict": str(one.verdict)} for one in study.implications]
    return found


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {f"{key:g}" if isinstance(key, float) else str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
