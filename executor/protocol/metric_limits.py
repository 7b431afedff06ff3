"""How many metrics of a script are kept. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.reports import MeasuredAt

MOST = 200  # metrics of a job
MOST_NAME = 100  # characters of a name
TOO_MANY = f"reports more than {MOST} metrics; the {MOST} last named are kept"
TOO_LONG = f"reports metrics with names of more than {MOST_NAME} characters; the names are cut"


def bounded(
    known: Mapping[str, float], new: Mapping[str, float], target: str = ""
) -> tuple[dict[str, float], str]:
    """Return the metrics of a job after a report, and a sentence if some are left out.

    The last named metrics stay, and the `target` always does.
    """
    cut = {name if name == target else shortened(name): value for name, value in new.items()}
    said = TOO_LONG if any(name not in cut for name in new) else ""
    # A metric that is reported again keeps its position; metrics of one epoch only go first.
    merged = {**known, **cut}
    if len(merged) <= MOST:
        return merged, said
    order = [name for name in merged if name not in cut and name != target]
    order += [name for name in cut if name != target]
    kept = {target, *order[-(MOST - (target in merged)) :]}
    return {name: value for name, value in merged.items() if name in kept}, TOO_MANY


def places(
    metrics: Mapping[str, float],
    known: Mapping[str, MeasuredAt],
    new: Mapping[str, MeasuredAt] | None,
    target: str = "",
) -> dict[str, MeasuredAt]:
    """Return where each of these metrics was measured, as far as that is known; names are those of `bounded`."""
    cut = {name if name == target else shortened(name): at for name, at in (new or {}).items()}
    merged = {**known, **cut}
    return {name: merged[name] for name in metrics if name in merged}


def shortened(name: str) -> str:
    return name if len(name) <= MOST_NAME else name[: MOST_NAME - 1] + "…"
