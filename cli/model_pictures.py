"""Pictures of models: importances, one term as a curve or a heat map, a tree. PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..estimators.interpretable.additive import AdditiveModel, Sum, Term
from ..estimators.interpretable.corrections import Model
from ..estimators.interpretable.table import Feature, Floats
from ..estimators.interpretable.tree import KNOWN, TreeModel
from ..simulator.results import drawing

if TYPE_CHECKING:
    from matplotlib.axis import Axis

_MOST_BARS, _MOST_LEAVES = 20, 64
_WIDE = 30.0  # last edge over the first, from which on an axis is logarithmic


def importances(model: Model) -> bytes:
    """Draw the terms or features that count most."""
    pairs = model.importances()[:_MOST_BARS][::-1]
    figure, (axes,) = drawing.figure(1, width=8, height=1.0 + 0.28 * len(pairs))
    axes.barh([name for name, _ in pairs], [value for _, value in pairs], color=drawing.COLOURS[0])
    of = f"mean score ({model.target})" if isinstance(model, AdditiveModel) else "part of what the tests lower"
    axes.set(xlabel=of)
    return drawing.png(figure)


def term(model: AdditiveModel, one: Term, before: Term | None = None) -> bytes:
    """Draw a term: a curve of one feature with the rows of the fit below, or a heat map of two.

    before: the term as it was fitted, drawn dashed.
    """
    return _curve(model, one, before) if len(one.features) == 1 else _heat_map(model, one)


def _curve(model: AdditiveModel, one: Term, before: Term | None) -> bytes:
    feature = model.features[one.features[0]]
    figure, (above, below) = drawing.figure(2, width=8, height=4.4, rows=True)
    if feature.categories:
        places = np.arange(len(feature.categories))
        above.bar(places, one.scores[1:], color=drawing.COLOURS[0])
        below.bar(places, one.counts[1:], color="#999999")
        below.set_xticks(places, feature.categories, rotation=60, ha="right", fontsize=7)
    else:
        wide = _is_wide(one.edges[0])
        cuts = _ends(one.edges[0], wide)
        if wide:
            above.set_xscale("log")
            drawing.plain_log(above.xaxis)
        if before is not None:
            above.stairs(
                before.scores[1:], _ends(before.edges[0], wide), label="as fitted", **_line(1), baseline=None
            )
        above.stairs(one.scores[1:], cuts, label="in use", **_line(0), baseline=None)
        below.stairs(one.counts[1:], cuts, fill=True, color="#999999")
        if before is not None:
            above.legend(fontsize=8)
    above.axhline(0.0, color="grey", lw=0.8)
    missing = "" if one.counts[0] == 0 else f"; missing: {one.scores[0]:+.3g}"
    above.set(ylabel=f"score ({model.target})", title=f"{feature.name}{missing}")
    below.set(xlabel=feature.name, ylabel="rows")
    return drawing.png(figure)


def _line(at: int) -> dict[str, object]:
    style = drawing.style(at)
    return {"color": style["color"], "ls": style["ls"], "lw": style["lw"]}


def _is_wide(edges: Floats) -> bool:
    """Return whether edges are better seen on a logarithmic axis."""
    return bool(len(edges) and edges[0] > 0 and edges[-1] > _WIDE * edges[0])


def _ends(edges: Floats, wide: bool) -> Floats:
    """Return edges with an end before the first and one behind the last, for a picture."""
    if not len(edges):
        return np.array([0.0, 1.0])
    if wide:
        return np.concatenate([[edges[0] / 2], edges, [edges[-1] * 1.5]])
    width = max((edges[-1] - edges[0]) / max(len(edges), 2), 1e-9)
    return np.concatenate([[edges[0] - width], edges, [edges[-1] + width]])


def _heat_map(model: AdditiveModel, one: Term) -> bytes:
    figure, (axes,) = drawing.figure(1, width=7, height=5)
    first, second = (model.features[f] for f in one.features)
    most = float(np.abs(one.scores[1:, 1:]).max()) or 1.0
    seen = axes.imshow(
        one.scores[1:, 1:].T, origin="lower", aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most,
    )  # fmt: skip
    for feature, edges, axis in ((first, one.edges[0], axes.xaxis), (second, one.edges[1], axes.yaxis)):
        _marks(axis, feature, edges)
    axes.set(xlabel=first.name, ylabel=second.name, title=f"{first.name} and {second.name}")
    axes.grid(visible=False)
    figure.colorbar(seen, ax=axes, label=f"score ({model.target})")
    return drawing.png(figure)


def _marks(axis: Axis, feature: Feature, edges: Floats) -> None:
    places = np.arange(len(edges) + 1)
    names = list(feature.categories) or [f"< {edge:.4g}" for edge in edges] + (
        [f">= {edges[-1]:.4g}"] if len(edges) else ["any"]
    )
    some = np.unique(np.linspace(0, len(places) - 1, min(len(places), 10)).astype(int))
    axis.set_ticks(places[some], [names[i] for i in some])
    for label in axis.get_ticklabels():
        label.set(fontsize=7, rotation=45, ha="right")


def tree(model: TreeModel) -> bytes:
    """Draw a tree. Raises ValueError, in one sentence, for one with more leaves than anybody reads."""
    if model.leaves > _MOST_LEAVES:
        raise ValueError(f"the tree has {model.leaves} leaves, and a picture shows {_MOST_LEAVES}; prune it first")
    figure, (axes,) = drawing.figure(1, width=max(4.0, 1.5 * model.leaves), height=1.2 * (model.depth + 1))
    x, depth = _places(model)
    for node in range(model.nodes):
        feature = int(model.feature[node])
        if feature >= 0:
            at = float(model.threshold[node])
            name = model.features[feature].name
            text = f"{name} known?" if at == KNOWN else f"{name} <= {at:.4g}?"
            for child, word in ((int(model.left[node]), "yes"), (int(model.right[node]), "no")):
                axes.plot([x[node], x[child]], [-depth[node], -depth[child]], color="#888888", lw=1, zorder=1)
                middle = (x[node] + x[child]) / 2, -(depth[node] + depth[child]) / 2
                axes.text(*middle, word, fontsize=7, color="#555555", ha="center")
        else:
            text = f"{model.answer(node)}\n{model.counts[node]:g} rows"
        colour = "#e8f1fa" if feature >= 0 else "#fdf0e2"
        axes.text(
            x[node], -depth[node], text, ha="center", va="center", fontsize=8, zorder=2,
            bbox={"boxstyle": "round", "fc": colour, "ec": "#888888"},
        )  # fmt: skip
    axes.set(xlim=(-0.7, model.leaves - 0.3), ylim=(-float(depth.max()) - 0.5, 0.5))
    axes.axis("off")
    return drawing.png(figure)


def _places(model: TreeModel) -> tuple[Floats, Floats]:
    """Return (nodes,) places from left to right, and depths."""
    depth, order, ahead = np.zeros(model.nodes), list[int](), [0]
    while ahead:
        node = ahead.pop()
        order.append(node)
        if model.left[node] >= 0:
            depth[[model.left[node], model.right[node]]] = depth[node] + 1
            ahead += [int(model.right[node]), int(model.left[node])]
    x = np.zeros(model.nodes)
    leaves = [node for node in order if model.left[node] < 0]
    x[leaves] = np.arange(len(leaves))
    for node in reversed(order):
        if model.left[node] >= 0:
            x[node] = (x[model.left[node]] + x[model.right[node]]) / 2
    return x, depth


def explained(found: Sum, target: str) -> bytes:
    """Draw a prediction as a sum: the mean, the scores one after another, and the total."""
    parts = found.parts[:_MOST_BARS]
    names = ["mean", *(f"{name} = {shown}" for name, shown, _ in parts)]
    values = [found.mean, *(score for _, _, score in parts)]
    rest = found.total - sum(values)
    if len(found.parts) > len(parts):
        names, values = [*names, "others"], [*values, rest]
    ends = np.cumsum(values)
    starts = np.concatenate([[0.0], ends[:-1]])
    figure, (axes,) = drawing.figure(1, width=9, height=1.2 + 0.3 * len(names))
    colours = ["#999999", *(drawing.COLOURS[1 if value > 0 else 0] for value in values[1:])]
    axes.barh(names, values, left=starts, color=colours)
    axes.axvline(found.total, color="black", lw=1)
    axes.invert_yaxis()
    low, high = float(ends.min()), float(ends.max())
    margin = 0.1 * (high - low) or 1.0
    axes.set_xlim(low - margin, high + margin)  # the mean's bar begins further left
    axes.set(xlabel=f"{target}: {found.total:.4g}")
    return drawing.png(figure)
