"""One self-contained HTML page of simulated runs; pictures are in the file and nothing is fetched."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from .metrics import MEANING, gpu_hours_by_application, spread
from .saved import SavedRun

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1150px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .25em .8em; text-align: right }
td:first-child, th:first-child { text-align: left } tr { border-bottom: 1px solid #e4e4e4 }
th { border-bottom: 2px solid #888 } .better { color: #00704f } .worse { color: #b0440a }
small { color: #666 } img { max-width: 100% } h2 { margin-top: 2em } code { background: #f3f3f3 }
"""


def page(
    title: str,
    groups: Mapping[str, Sequence[SavedRun]],
    pictures: Sequence[tuple[str, str, bytes]],
) -> str:
    """Return the page as HTML.

    `groups`: runs by label; others are compared with the first.
    `pictures`: heading, description, PNG.
    """
    body = [f"<h1>{escape(title)}</h1>", _about(groups), "<h2>Figures</h2>", metrics_table(groups)]
    for heading, seen, png in pictures:
        data = base64.b64encode(png).decode()
        body.append(
            f"<h2>{escape(heading)}</h2><p>{escape(seen)}</p>"
            f'<img alt="{escape(heading)}" src="data:image/png;base64,{data}">'
        )
    body += ["<h2>GPU-hours by application and GPU type</h2>", hours_table(groups)]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def metrics_table(groups: Mapping[str, Sequence[SavedRun]]) -> str:
    """Return the mean over traces, its deviation if there are several, and the difference to the first column."""
    found = {label: spread([run.figures() for run in runs]) for label, runs in groups.items()}
    first = next(iter(found.values()))
    head = "".join(f"<th>{escape(label)}</th>" for label in groups)
    rows = []
    for name, (meaning, less_is_better) in MEANING.items():
        cells = []
        for label, figures in found.items():
            mean, deviation = figures[name]
            several = f" <small>± {_number(deviation)}</small>" if len(groups[label]) > 1 else ""
            apart = "" if figures is first else _difference(mean, first[name][0], less_is_better)
            cells.append(f"<td>{_number(mean)}{several}{apart}</td>")
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
            cells = "".join(f"<td>{_number(float(mean))}</td>" for mean in [*means, sum(means)])
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


def _number(value: float) -> str:
    return "-" if not np.isfinite(value) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _difference(value: float, against: float, less_is_better: bool | None) -> str:
    if less_is_better is None or not (np.isfinite(value) and np.isfinite(against)) or against == 0:
        return ""
    change = value / against - 1
    kind = "" if abs(change) < 0.005 else "better" if (change < 0) == less_is_better else "worse"
    told = f"{change:+.0%}" if change < 9 else f"×{change + 1:.0f}"
    return f' <small class="{kind}">{told}</small>'
