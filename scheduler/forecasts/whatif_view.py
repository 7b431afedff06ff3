"""The answer to a question of what would be, as people and programs are shown it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...core.identity import Reader
from ...core.schemas import Prediction, WhatIfHold, WhatIfJob, WhatIfValue, WhatIfView
from ...core.teams import kind_of
from ...core.wording import span
from ...forecasts.answers import Forecast, Hold, JobForecast, Span, WhatIf
from .shown import prediction

MOST_NAMED = 3  # jobs that a sentence names
LEAST_S, LEAST_PART = 30.0, 0.02  # a job is delayed by more than that, and by more than that part of what it takes


def whatif_view(
    told: WhatIf,
    names: Mapping[str, str],
    of_whom: Mapping[str, tuple[str, str]],
    pools: Mapping[str, str],
    new: Sequence[str],
    prices: Mapping[str, float],
    notes: Sequence[str],
) -> WhatIfView:
    """Return `core.schemas.WhatIfView`.

    Args:
        names: of jobs by id. of_whom: their owners and teams.
        pools: of jobs by id; those outside pools may be absent.
        new: ids of jobs that would be submitted.
        prices: of a GPU-hour by GPU type as a100@lab; empty: there are none.
    """
    ids = list(dict.fromkeys([*new, *told.before.jobs, *told.after.jobs]))
    parts = [_hours(told.before, pools), _hours(told.after, pools)]
    rows = [
        _row(
            job,
            told,
            names.get(job, job),
            of_whom.get(job, ("", "")),
            job in new,
            [_value([part.get(job, {})], prices) for part in parts],
        )
        for job in ids
    ]
    rows.sort(key=lambda row: (not row["new"], -abs(row["later_s"] or 0.0), row["id"]))
    before, after = (_value(part.values(), prices) for part in parts)
    return WhatIfView(
        text=_sentence(rows, told.after.made_s),
        asked_s=told.after.made_s,
        round=told.after.round,
        worlds=told.after.worlds,
        cpu_s=round(told.after.cpu_s, 2),
        jobs=rows,
        delayed=sum(_is_delayed(row) for row in rows),
        sooner=sum(_is_sooner(row) for row in rows),
        prices=dict(prices),
        before=before,
        after=after,
        notes=list(notes),
    )


def told_to(view: WhatIfView, reader: Reader) -> WhatIfView:
    """Return the view without jobs that a user may not read; how many of these are delayed stays."""
    own = [row for row in view["jobs"] if reader.may_read(row["owner"], row["team"])]
    hidden = len(view["jobs"]) - len(own)
    told = [f"{hidden} jobs of others are counted and not shown"] if hidden else []
    found: WhatIfView = {**view, "jobs": own, "notes": [*view["notes"], *told]}
    found["text"] = _sentence(own, view["asked_s"], view["delayed"])
    return found


def _row(
    job: str, told: WhatIf, name: str, of_whom: tuple[str, str], is_new: bool, values: Sequence[WhatIfValue]
) -> WhatIfJob:
    before, after = told.before.jobs.get(job), told.after.jobs.get(job)
    later: Span | None = told.later.get(job)
    return WhatIfJob(
        id=job,
        name=name,
        owner=of_whom[0],
        team=of_whom[1],
        new=is_new,
        before=_predicted(before, told.before),
        after=_predicted(after, told.after),
        later_s=None if later is None else later.at_s,
        later_low_s=None if later is None else later.low_s,
        later_high_s=None if later is None else later.high_s,
        value_before=values[0],
        value_after=values[1],
        holds_before=_holds(before),
        holds_after=_holds(after),
    )


def _predicted(told: JobForecast | None, of: Forecast) -> Prediction | None:
    return None if told is None else prediction(told, of.made_s, of.worlds)


def _holds(told: JobForecast | None) -> list[WhatIfHold]:
    holds: Sequence[Hold] = () if told is None else told.holds
    return [WhatIfHold(start_s=hold.from_s, gpu_type=hold.gpu_type, gpus=hold.gpus) for hold in holds]


def _hours(told: Forecast, pools: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return the GPU-hours that each job still takes, by GPU type as a100@lab."""
    return {
        id: {kind_of(gpu_type, pools.get(id)): hours for gpu_type, hours in job.gpu_hours.items()}
        for id, job in told.jobs.items()
    }


def _value(jobs: Iterable[Mapping[str, float]], prices: Mapping[str, float]) -> WhatIfValue:
    """Return what jobs still take: GPU-hours by type, and value units where all of these types have a price."""
    hours: dict[str, float] = {}
    for job in jobs:
        for gpu_type, more in job.items():
            hours[gpu_type] = hours.get(gpu_type, 0.0) + more
    priced = bool(prices) and all(gpu_type in prices for gpu_type in hours)
    units = sum(prices[gpu_type] * more for gpu_type, more in hours.items()) if priced else None
    return WhatIfValue(gpu_hours={t: round(more, 3) for t, more in sorted(hours.items())}, units=units)


def _is_delayed(row: WhatIfJob) -> bool:
    return _matters(row) and (row["later_s"] or 0.0) > 0


def _is_stopped(row: WhatIfJob) -> bool:
    """Return whether a job that has or would get GPUs gets none any more."""
    before, after = row["before"], row["after"]
    return bool(before and after and after["why_no_start"] and not before["why_no_start"])


def _is_sooner(row: WhatIfJob) -> bool:
    return _matters(row) and (row["later_s"] or 0.0) < 0


def _matters(row: WhatIfJob) -> bool:
    """Return whether a job ends so much later or sooner that somebody would see it."""
    before, later_s = row["before"], row["later_s"]
    if before is None or later_s is None or before["end_s"] is None:
        return False
    return abs(later_s) >= max(LEAST_S, LEAST_PART * (before["end_s"] - before["predicted_s"]))


def _sentence(rows: Sequence[WhatIfJob], now_s: float, delayed: int | None = None) -> str:
    """Return the answer in a sentence."""
    if not rows and not delayed:
        return "No job is here whose start or end could change."
    parts = []
    for row in rows:
        if row["new"] and row["after"] is not None:
            parts.append(_new_job(row, now_s))
    slower, sooner = [row for row in rows if _is_delayed(row)], [row for row in rows if _is_sooner(row)]
    count = len(slower) if delayed is None else delayed
    if count:
        parts.append(_moved(slower, count, "later"))
    if sooner:
        parts.append(_moved(sooner, len(sooner), "sooner"))
    if stopped := [row for row in rows if _is_stopped(row)]:
        many = f" and {len(stopped) - MOST_NAMED} more" if len(stopped) > MOST_NAMED else ""
        parts.append(f"{', '.join(row['id'] for row in stopped[:MOST_NAMED])}{many} would get no GPUs in sight")
    elif not count and not sooner:
        parts.append(f"{'no other' if parts else 'No'} job ends noticeably sooner or later")
    return f"{'; '.join(parts)}."


def _new_job(row: WhatIfJob, now_s: float) -> str:
    after = row["after"]
    assert after is not None
    starts, ends = after["start_s"], after["end_s"]
    if starts is None:
        return f"{row['name']} would not start: {after['why_no_start'] or 'nobody knows when'}"
    start = f"{row['name']} would start in about {span(max(starts - now_s, 0.0))}"
    if ends is None:
        return f"{start}; its end is not known: {after['why_no_end']}"
    return f"{start} and end in about {span(max(ends - now_s, 0.0))}"


def _moved(rows: Sequence[WhatIfJob], count: int, how: str) -> str:
    """Return how many jobs end later or sooner, and which of those that are named most."""
    if not rows:
        return f"{count} {'job ends' if count == 1 else 'jobs end'} {how}"
    row = max(rows, key=lambda row: abs(row["later_s"] or 0.0))
    by = f"by about {span(abs(row['later_s'] or 0.0))}"
    return f"{row['name']} ends {how}, {by}" if count == 1 else f"{count} jobs end {how}, {row['name']} most, {by}"
