"""What is shown of forecasts. A number stays as it is while a newer one says nearly the same. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...core.schemas import Prediction
from ...forecasts.answers import Forecast, JobForecast, Span

SAME_PART = 0.05  # of the time left, by which a moment may differ and still be the same
SAME_S = 5.0


def settled(before: Mapping[str, JobForecast], new: Forecast) -> dict[str, JobForecast]:
    """Return what is shown after a new forecast: what was shown, where the new one says nearly the same."""
    found: dict[str, JobForecast] = {}
    for job, told in new.jobs.items():
        known = before.get(job)
        if known is None:
            found[job] = told
            continue
        start, end = _kept(known.start, told.start, new.made_s), _kept(known.end, told.end, new.made_s)
        found[job] = replace(told, start=start, end=end)
    return found


def _kept(known: Span | None, told: Span | None, now_s: float) -> Span | None:
    if known is None or told is None:
        return told
    near_s = max(SAME_PART * max(told.at_s - now_s, 0.0), SAME_S)
    passed = known.at_s <= now_s < told.at_s  # what was foreseen did not come
    same = abs(known.at_s - told.at_s) <= near_s
    alike = max(abs(known.low_s - told.low_s), abs(known.high_s - told.high_s)) <= 3 * near_s
    return known if same and alike and not passed else told


def prediction(told: JobForecast, made_s: float, worlds: int) -> Prediction:
    """Return `core.schemas.Prediction`; moments by the steady clock."""
    start, end = told.start, told.end
    return Prediction(
        start_s=None if start is None else start.at_s,
        start_low_s=None if start is None else start.low_s,
        start_high_s=None if start is None else start.high_s,
        end_s=None if end is None else end.at_s,
        end_low_s=None if end is None else end.low_s,
        end_high_s=None if end is None else end.high_s,
        why_no_start=told.why_no_start,
        why_no_end=told.why_no_end,
        predicted_s=made_s,
        worlds=worlds,
    )
