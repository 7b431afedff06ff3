"""Numbers as people and programs read them. JSON has no NaN and no infinities: they are texts there.

"NaN", "Infinity" and "-Infinity": Python's `float`, JavaScript's `Number` and pydantic read them back.
All JSON of records, events, answers and traces comes from `dumps`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def shown(value: float | None) -> str:
    """Return four digits; `-` for what is not known."""
    if value is None:
        return "-"
    return f"{value:.4g}" if math.isfinite(value) else _text(value)


def dumps(document: Any, indent: int | None = None) -> str:
    """Return valid JSON of plain data and numpy scalars; what else there is becomes text."""
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(document, indent=indent, separators=separators, allow_nan=False, default=_other)
    except ValueError:
        return json.dumps(plain(document), indent=indent, separators=separators, allow_nan=False, default=_other)


def plain(value: Any) -> Any:
    """Return the same in JSON's own types."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return _text(value) if isinstance(value, float) and not math.isfinite(value) else value


def restored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures that `dumps` has written, as numbers again."""
    return {key: NOT_FINITE.get(of, of) if isinstance(of, str) else of for key, of in values.items()}


def answer_text(document: Any, indent: int | None = None) -> str:
    """Return an answer as JSON. What is no number there is text, and null among metrics of jobs."""
    separators = (",", ":") if indent is None else None
    try:  # most answers have nothing to replace, and looking for it costs more than writing
        return json.dumps(document, indent=indent, separators=separators, allow_nan=False, default=_other)
    except ValueError:
        return dumps(_with_finite_metrics(document), indent)


def _with_finite_metrics(document: Any) -> Any:
    """Return an answer in which each metric of a job is finite or None."""
    if isinstance(document, Mapping):
        return {
            key: _finite(value) if key == "metrics" and isinstance(value, Mapping) else _with_finite_metrics(value)
            for key, value in document.items()
        }
    return [_with_finite_metrics(one) for one in document] if isinstance(document, list | tuple) else document


def _finite(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in metrics.items()
    }


def all_finite(document: Any) -> bool:
    """Return whether no number in plain data is NaN or infinite."""
    try:
        json.dumps(document, allow_nan=False, default=_other)
    except ValueError:
        return False
    return True


def _text(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _other(value: Any) -> Any:
    return plain(value.item()) if hasattr(value, "item") else str(value)
