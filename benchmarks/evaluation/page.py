"""Tables of the evaluation in Markdown, and putting them between the markers of a page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from .experiments import MEANING, Claim, Experiment, Group
from .grid import Value
from .paper import Said

Values = Mapping[str, Mapping[str, Value]]  # group -> figure ->
_MILLISECONDS_AND_COUNTS = 100  # from here on no decimals


def number(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= _MILLISECONDS_AND_COUNTS else f"{value:.3g}"


def with_spread(mean: float, spread: float) -> str:
    return number(mean) + (f" ± {number(spread)}" if spread > 0 else "")


def rows(experiment: Experiment, values: Values) -> list[tuple[str, str, str, str, str, str]]:
    """(setting, figure, paper, published simulator, ours, traces); nothing for what was not run."""
    found = []
    for group in experiment.groups:
        for figure in group.figures:
            ours = values.get(group.key, {}).get(figure)
            if ours is None:
                continue
            said, published = group.paper.get(figure), group.published.get(figure)
            found.append(
                (
                    group.label,
                    MEANING[figure],
                    "" if said is None else with_spread(said.mean, said.spread),
                    "" if published is None else number(published),
                    with_spread(ours.mean, ours.spread),
                    str(ours.traces),
                )
            )
    return found


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    aligned = "|" + "---|" * min(2, len(head)) + "--:|" * (len(head) - 2)
    return "\n".join(["| " + " | ".join(head) + " |", aligned, *("| " + " | ".join(row) + " |" for row in body)])


def difference(claim: Claim, values: Values) -> float | None:
    """Of `less` over `more`, less one; None where either was not run."""
    less, more = (values.get(key, {}).get(claim.figure) for key in (claim.less, claim.more))
    if less is None or more is None:
        return None
    if more.mean == 0:
        return 0.0 if less.mean == 0 else math.inf
    return less.mean / more.mean - 1


def holds(claim: Claim, values: Values) -> bool | None:
    found = difference(claim, values)
    return None if found is None else found < 0 or found < claim.slack


def said_of(claim: Claim, groups: Mapping[str, Group]) -> str:
    """The paper's difference, by its tables or its words."""
    if claim.said:
        return claim.said
    pair: list[Said | None] = [
        groups[key].paper.get(claim.figure) if key in groups else None for key in (claim.less, claim.more)
    ]
    if pair[0] is None or pair[1] is None:
        return "less"
    return f"{100 * (pair[0].mean / pair[1].mean - 1):+.0f} %"


def orderings(experiment: Experiment, values: Values) -> str:
    """How many hold; a row each for those of mean JCT, what the paper's text speaks of, and what fails."""
    groups = {group.key: group for group in experiment.groups}
    judged = [(claim, holds(claim, values)) for claim in experiment.claims]
    judged = [(claim, verdict) for claim, verdict in judged if verdict is not None]
    if not judged:
        return ""
    body = []
    for claim, verdict in judged:
        if verdict and claim.figure != "mean_jct_h" and not claim.said:
            continue
        less, more = (groups[key].label for key in (claim.less, claim.more))
        found = difference(claim, values)
        ours = "" if found is None else f"{100 * found:+.0f} %" if math.isfinite(found) else "more"
        body.append(
            (
                f"{less} under {more}",
                MEANING[claim.figure],
                said_of(claim, groups),
                ours,
                "holds" if verdict else "**does not**",
            )
        )
    count = sum(bool(verdict) for _, verdict in judged)
    lead = f"{count} of the paper's {len(judged)} orderings hold."
    return f"{lead}\n\n{table(('ordering', 'figure', 'paper', 'ours', ''), body)}" if body else lead


def section(experiment: Experiment, values: Values) -> str:
    """What stands between the markers of an experiment."""
    found = rows(experiment, values)
    if not found:
        return "Not run yet."
    plain = not any(row[3] for row in found)
    head = ["setting", "figure", "paper", "published simulator, trace 1", "ours", "traces"]
    body: list[Sequence[str]] = list(found)
    if plain:
        head.pop(3)
        body = [(*row[:3], *row[4:]) for row in found]
    return "\n\n".join(part for part in (table(head, body), orderings(experiment, values)) if part)


def flat(experiment: Experiment, values: Values) -> dict[str, float]:
    """`experiment/group/figure` -> value, and how many orderings there are and hold."""
    out: dict[str, float] = {}
    for group in experiment.groups:
        for figure in group.figures:
            value = values.get(group.key, {}).get(figure)
            if value is not None and math.isfinite(value.mean):
                out[f"{experiment.key}/{slug(group.key)}/{figure}"] = value.mean
    verdicts = [verdict for claim in experiment.claims if (verdict := holds(claim, values)) is not None]
    if verdicts:
        out[f"{experiment.key}/orderings"] = len(verdicts)
        out[f"{experiment.key}/orderings_that_hold"] = sum(verdicts)
    return out


def slug(key: str) -> str:
    return re.sub(r"[^\w./=-]+", "_", key)


def between(text: str, key: str, content: str) -> str:
    """The page with what lies between `<!-- key -->` and `<!-- end of key -->` replaced.

    Raises ValueError for a page without these markers.
    """
    start, end = f"<!-- {key} -->", f"<!-- end of {key} -->"
    before, found, rest = text.partition(start)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page has no {start} … {end}")
    return f"{before}{start}\n\n{content}\n\n{end}{after}"
