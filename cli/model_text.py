"""What `coadapt models` says of a model, as lines for people and as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..estimators.interpretable.additive import AdditiveModel, Term
from ..estimators.interpretable.corrections import Correction, Model, Monotone
from ..estimators.interpretable.counterfactual import Counterfactual
from ..estimators.interpretable.model_file import Kept
from ..estimators.interpretable.table import Feature, Floats
from ..estimators.interpretable.tree import TreeModel
from .model_places import kind_of

MOST_SHOWN = 20


def lines_of(model: Model, kept: Kept) -> list[str]:
    """Return what counts in a model, its rules, and its corrections."""
    lines = [f"{model.target}: {kind_of(model)}"]
    if isinstance(model, AdditiveModel):
        lines.append(f"mean {model.mean:.6g}")
        if model.band is not None:
            lines.append(f"band of 80 %: {model.band[0]:+.4g} to {model.band[1]:+.4g}")
    width = max((len(name) for name, _ in model.importances()[:MOST_SHOWN]), default=0)
    lines += [f"  {name:<{width}}  {value:.4g}" for name, value in model.importances()[:MOST_SHOWN]]
    if isinstance(model, TreeModel):
        lines += [rule.text for rule in model.rules()[: 4 * MOST_SHOWN]]
    for one in kept.corrections:
        waits = " (waits for a fit that has a place for it)" if one in kept.waiting else ""
        lines.append(f"corrected: {_correction(one)}{waits}")
    return lines


def _correction(one: Correction) -> str:
    if isinstance(one, Monotone):
        return f"{one.feature} is {one.direction}; pairs that would undo it: {one.pairs}"
    parts = [
        f"{name} {part}" if isinstance(part, str) else f"{part[0]:g} <= {name} <= {part[1]:g}"
        for name, part in one.within.items()
    ]
    return f"{' and '.join(parts)}: {one.value} by hand"


def lines_of_term(model: Model, term: Term) -> list[str]:
    """Return the scores of a term, bin by bin."""
    names = [model.features[f].name for f in term.features]
    lines = [f"{' and '.join(names)}: score of {model.target}, rows"]
    bins = [_bins(model.features[f], edges) for f, edges in zip(term.features, term.edges, strict=True)]
    if len(bins) == 1:
        for text, score, count in zip(bins[0], term.scores, term.counts, strict=True):
            if count or text != "missing":
                lines.append(f"  {text:<24} {score:+10.4g} {count:10.6g}")
        return lines
    for i, first in enumerate(bins[0]):
        for j, second in enumerate(bins[1]):
            if term.counts[i, j]:
                lines.append(f"  {first:<24} {second:<24} {term.scores[i, j]:+10.4g} {term.counts[i, j]:10.6g}")
    return lines


def _bins(feature: Feature, edges: Floats) -> list[str]:
    if feature.categories:
        return ["missing", *feature.categories]
    ends = [-math.inf, *edges.tolist(), math.inf]
    return ["missing", *(_range(feature, low, high) for low, high in pairwise(ends))]


def _range(feature: Feature, low: float, high: float) -> str:
    if feature.whole and math.isfinite(low) and math.isfinite(high):
        first, last = math.ceil(low), math.ceil(high) - 1
        return f"{first}" if first == last else f"{first} to {last}"
    if feature.whole and low == -math.inf and math.isfinite(high):
        return f"up to {math.ceil(high) - 1}"
    if low == -math.inf:
        return "all" if high == math.inf else f"below {high:.6g}"
    return f"from {low:.6g}" if high == math.inf else f"{low:.6g} to {high:.6g}"


def as_document(model: Model, term: Term | None) -> dict[str, Any]:
    """Return a model, or one of its terms, as data."""
    if term is not None:
        return {
            "features": [model.features[f].name for f in term.features],
            "edges": [edges.tolist() for edges in term.edges],
            "scores": term.scores.tolist(),
            "counts": term.counts.tolist(),
        }
    found: dict[str, Any] = {
        "target": model.target,
        "kind": kind_of(model),
        "importances": [{"name": name, "importance": value} for name, value in model.importances()],
    }
    if isinstance(model, TreeModel):
        found["rules"] = [
            {"conditions": list(rule.conditions), "answer": rule.answer, "rows": rule.rows}
            for rule in model.rules()
        ]
    else:
        found |= {"mean": model.mean, "band": model.band}
    return found


def explanation(model: Model, case: Floats, near: Sequence[Counterfactual] | None) -> dict[str, Any]:
    """Return what a model says of a case, and why, as data."""
    found: dict[str, Any] = {"target": model.target, "prediction": float(model.predict(case[None])[0])}
    if isinstance(model, AdditiveModel):
        told = model.explain(case)
        found |= {
            "mean": told.mean,
            "sum": told.total,
            "parts": [{"term": name, "value": shown, "score": score} for name, shown, score in told.parts],
        }
    else:
        steps, answer = model.explain(case)
        found |= {"path": steps, "answer": answer}
    if near is not None:
        found["nearest"] = [
            {"row": one.row + 1, "distance": one.distance,
             "differences": [{"feature": n, "here": a, "there": b} for n, a, b in one.differences]}
            for one in near
        ]  # fmt: skip
    return found


def lines_explained(model: Model, case: Floats, near: Sequence[Counterfactual] | None) -> list[str]:
    """Return the same as lines."""
    if isinstance(model, AdditiveModel):
        told = model.explain(case)
        lines = [f"{model.target} {told.total:.4g} = {told.mean:.4g} mean"]
        if model.classes:
            chance = float(model.predict(case[None])[0])
            lines[0] = (
                f"{model.classes[1]} with {chance:.1%}: log of the odds {told.total:.4g} = {told.mean:.4g} mean"
            )
        lines += [f"  {score:+10.4g}  {name} = {shown}" for name, shown, score in told.parts]
    else:
        steps, answer = model.explain(case)
        lines = [*steps, f"so {answer}"]
    features = {one.name: one for one in model.features}
    for one in near or ():
        parts = "; ".join(
            f"{name} {features[name].shown(there)} in place of {features[name].shown(here)}"
            for name, here, there in one.differences[:6]
        )
        lines.append(
            f"row {one.row + 1} came out as {model.classes[int(one.answer)]}, {one.distance:.3g} away: {parts}"
        )
    return lines


def changed_lines(before: Model, after: Model) -> list[str]:
    """Return what a correction changed."""
    if isinstance(before, AdditiveModel) and isinstance(after, AdditiveModel):
        old = {before.name_of(term): term for term in before.terms}
        new = {after.name_of(term): term for term in after.terms}
        lines = [f"taken out: {name}" for name in old if name not in new]
        for name, term in new.items():
            was = old.get(name)
            if was is None:
                lines.append(f"put back: {name}")
            elif was.scores.shape != term.scores.shape or (was.scores != term.scores).any():
                lines.append(f"changed: {name}, mean score {was.importance:.4g} before, {term.importance:.4g} now")
        return lines or ["nothing changed: the model was so already"]
    assert isinstance(before, TreeModel)
    assert isinstance(after, TreeModel)
    return [f"{before.leaves} leaves before, {after.leaves} now"]
