"""One self-contained HTML page of simulated runs; pictures are in the file and nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from .deadlines import MEANING_OF_DEADLINES
from .html import document, number, picture
from .metrics import MEANING, gpu_hours_by_application, spread
from .saved import SavedRun


def page(
    title: str,
    groups: Mapping[str, Sequence[SavedRun]],
    pictures: Sequence[tuple[str, str, bytes]],
) -> str:
    """Return the page as HTML.

    `groups`: runs by label; others are compared with the first.
    `pictures`: heading, description, PNG.
    """
    body = [_about(groups), "<h2>Figures</h2>", metrics_table(groups)]
    for heading, seen, png in pictures:
        body.append(f"<h2>{escape(heading)}</h2><p>{escape(seen)}</p>{picture(heading, png)}")
    body += ["<h2>GPU-hours by application and GPU type</h2>", hours_table(groups)]
    return document(title, body)


def metrics_table(groups: Mapping[str, Sequence[SavedRun]]) -> str:
    """Return the mean over traces, its deviation if there are several, and the difference to the first column."""
    found = {label: spread([run.figures() for run in runs]) for label, runs in groups.items()}
    first = next(iter(found.values()))
    head = "".join(f"<th>{escape(label)}</th>" for label in groups)
    rows = []
    shown = MEANING | {
        key: said for key, said in MEANING_OF_DEADLINES.items() if all(key in f for f in found.values())
    }
    for name, (meaning, less_is_better) in shown.items():
        cells = []
        for label, figures in found.items():
            mean, deviation = figures[name]
            several = f" <small>± {number(deviation)}</small>" if len(groups[label]) > 1 else ""
            apart = "" if figures is first else _difference(mean, first[name][0], less_is_better)
            cells.append(f"<td>{number(mean)}{several}{apart}</td>")
        rows.append(f"<tr><td>{escape(meaning)}</td>{''.join(cells)}</tr>")
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def hours_table(groups: Mapping[str, Sequence[SavedRun]]) -> str:
    """Return the GPU-hours by application and GPU type, as means over the traces of a group."""
    types = sorted({t for runs in groups.values() for run in runs for t in run.outcome.cluster.gpu_types})
    head = "".join(f"<th>{escape(t)}</th>" for t in types)
    rows = []
    for label, runs in groups.items():
        each = [gpu_hours_by_application(run.outcome) for run in runs]
        for name in sorted({name for hours in each for name in hours}):
            means = [np.mean([hours.get(name, {}).get(t, 0.0) for hours in each]) for t in types]
            cells = "".join(f"<td>{number(float(mean))}</td>" for mean in [*means, sum(means)])
            what = escape(name or "jobs of given length")
            rows.append(f"<tr><td>{escape(label)}</td><td>{what}</td>{cells}</tr>")
    return f"<table><tr><th>run</th><th>application</th>{head}<th>all</th></tr>{''.join(rows)}</table>"


def _about(groups: Mapping[str, Sequence[SavedRun]]) -> str:
    rows = []
    for label, runs in groups.items():
        clusters = sorted({str(run.about.get("cluster", "?")) for run in runs})
        traces = sorted({f"{run.about.get('trace', '?')} (seed {run.about.get('seed', '?')})" for run in runs})
        listed = ", ".join(traces[:8]) + (f" and {len(traces) - 8} more" if len(traces) > 8 else "")
        rows.append(
            f"<tr><td>{escape(label)}</td><td>{escape(listed)}</td><td>{escape('; '.join(clusters))}</td></tr>"
        )
    return f"<table><tr><th>run</th><th>traces</th><th>cluster</th></tr>{''.join(rows)}</table>"


def _difference(value: float, against: float, less_is_better: bool | None) -> str:
    if less_is_better is None or not (np.isfinite(value) and np.isfinite(against)) or against == 0:
        return ""
    change = value / against - 1
    kind = "" if abs(change) < 0.005 else "better" if (change < 0) == less_is_better else "worse"
    told = f"{change:+.0%}" if change < 9 else f"×{change + 1:.0f}"
    return f' <small class="{kind}">{told}</small>'
