"""Tables of the evaluation in Markdown, and putting them between the markers of a page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from coadapt.simulator.results.saved import SavedRun

from . import hybrid
from .experiments import MEANING, Claim, Experiment, Group
from .grid import Value, values_of
from .paper import Said

_Run = TypeVar("_Run")

Values = Mapping[str, Mapping[str, Value]]  # group -> figure ->
Found = Mapping[str, Mapping[str, SavedRun]]  # group -> trace ->
_MILLISECONDS_AND_COUNTS = 100  # from here on no decimals


@dataclass(frozen=True)
class Verdict:
    """`difference`: of what is to be less over the other, less one."""

    claim: Claim
    difference: float
    holds: bool


def number(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= _MILLISECONDS_AND_COUNTS else f"{value:.3g}"


def with_spread(mean: float, spread: float) -> str:
    return number(mean) + (f" ± {number(spread)}" if spread > 0 else "")


def rows(experiment: Experiment, values: Values) -> list[tuple[str, str, str, str, str, str]]:
    """Return (setting, figure, paper, published simulator, ours, traces); nothing for what was not run."""
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


def speeds() -> str:
    """Return how the model of section 3.5.3 scales on each GPU type."""
    body = [
        (gpu_type, str(one.gpus), str(one.replicas), number(one.samples_s), f"{100 * one.relative:.1f} %")
        for gpu_type in hybrid.GPUS
        for one in hybrid.speeds(gpu_type)
    ]
    return table(("GPU type", "GPUs", "replicas", "samples/s", "per GPU, of one replica's"), body)


def judged(experiment: Experiment, found: Found) -> list[Verdict]:
    """Return the claims of which both sides were run, each over the traces that both were run on."""
    out = []
    for claim in experiment.claims:
        less, more = found.get(claim.less, {}), found.get(claim.more, {})
        both = [trace for trace in less if trace in more]
        if both:
            sides = ((less, claim.figure), (more, claim.than or claim.figure))
            pair = [values_of([runs[trace] for trace in both])[figure].mean for runs, figure in sides]
            out.append(verdict(claim, *pair))
    return out


def alike(found: Mapping[str, Mapping[str, _Run]]) -> dict[str, dict[str, _Run]]:
    """Return, of every group that was run at all, the runs on the traces that all of these have."""
    ran = {key: runs for key, runs in found.items() if runs}
    shared = set.intersection(*(set(runs) for runs in ran.values())) if ran else set()
    return {key: {trace: run for trace, run in runs.items() if trace in shared} for key, runs in ran.items()}


def verdict(claim: Claim, less: float, more: float) -> Verdict:
    if more == 0:
        return Verdict(claim, math.inf if less > 0 else 0.0, False)
    difference = less / more - 1
    return Verdict(claim, difference, difference < claim.slack)


def said_of(claim: Claim, groups: Mapping[str, Group]) -> str:
    """Return the paper's difference, by its tables or its words."""
    if claim.said:
        return claim.said
    pair: list[Said | None] = [
        groups[key].paper.get(claim.figure) if key in groups else None for key in (claim.less, claim.more)
    ]
    if pair[0] is None or pair[1] is None:
        return "less"
    return f"{100 * (pair[0].mean / pair[1].mean - 1):+.0f} %"


def orderings(experiment: Experiment, verdicts: Sequence[Verdict]) -> str:
    """Return how many hold; a row each for those of mean JCT, what the paper's text speaks of, and what fails."""
    if not verdicts:
        return ""
    groups = {group.key: group for group in experiment.groups}
    body = [
        (
            " under ".join(dict.fromkeys(groups[key].label for key in (found.claim.less, found.claim.more))),
            " under ".join(MEANING[name] for name in (found.claim.figure, found.claim.than) if name),
            said_of(found.claim, groups),
            f"{100 * found.difference:+.0f} %" if math.isfinite(found.difference) else "more",
            "holds" if found.holds else "**no**",
        )
        for found in verdicts
        if not found.holds or found.claim.figure == "mean_jct_h" or found.claim.said
    ]
    lead = f"{sum(found.holds for found in verdicts)} of the paper's {len(verdicts)} orderings hold."
    return f"{lead}\n\n{table(('ordering', 'figure', 'paper', 'ours', ''), body)}" if body else lead


def section(experiment: Experiment, values: Values, verdicts: Sequence[Verdict]) -> str:
    """Return what stands between the markers of an experiment."""
    found = rows(experiment, values)
    if not found:
        return "Not run yet."
    plain = not any(row[3] for row in found)
    head = ["setting", "figure", "paper", "published, trace 1", "ours", "traces"]
    body: list[Sequence[str]] = list(found)
    if plain:
        head.pop(3)
        body = [(*row[:3], *row[4:]) for row in found]
    return "\n\n".join(part for part in (table(head, body), orderings(experiment, verdicts)) if part)


def flat(experiment: Experiment, values: Values, verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Return `experiment/group/figure` -> value, of how many traces, and how many orderings there are and hold."""
    out: dict[str, float] = {}
    for group in experiment.groups:
        for figure in group.figures:
            value = values.get(group.key, {}).get(figure)
            if value is not None and math.isfinite(value.mean):
                out[f"{experiment.key}/{slug(group.key)}/{figure}"] = value.mean
                out[f"{experiment.key}/{slug(group.key)}/traces"] = value.traces
    if verdicts:
        out[f"{experiment.key}/orderings"] = len(verdicts)
        out[f"{experiment.key}/orderings_that_hold"] = sum(found.holds for found in verdicts)
    return out


def slug(key: str) -> str:
    return re.sub(r"[^\w./=-]+", "_", key)


def between(text: str, key: str, content: str) -> str:
    """Return the page with what lies between `<!-- key -->` and `<!-- end of key -->` replaced.

    Raises ValueError for a page without these markers.
    """
    start, end = f"<!-- {key} -->", f"<!-- end of {key} -->"
    before, found, rest = text.partition(start)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page has no {start} … {end}")
    return f"{before}{start}\n\n{content}\n\n{end}{after}"
