"""One self-contained HTML page of a study; pictures are in the file and nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

import numpy as np

from ..results.html import document, picture
from . import tables
from .study import Study
from .summary import summary
from .unknown import NO_LENGTHS, NO_STATES, NO_USERS, NO_VCS, TOO_LONG
from .verdicts import Verdict
from .virtual_clusters import SHOWN
from .words import share

NIGHT_ENDS = 8  # o'clock, as in the paper
_KIND = {Verdict.HOLDS: "better", Verdict.FAILS: "worse", Verdict.UNKNOWN: ""}
_STYLE = """<style>
table.words td, table.words th { text-align: left; vertical-align: top } ul { margin: 0; padding-left: 1.2em }
td.better, td.worse, td.unknown { white-space: nowrap }
</style>"""


def page(study: Study, drawn: Mapping[str, bytes]) -> str:
    """Return the page as HTML. `drawn`: the pictures by name."""
    facts = "".join(f"<tr><td>{escape(name)}</td><td>{escape(told)}</td></tr>" for name, told in summary(study))
    body = [_STYLE, f'<table class="words">{facts}</table>']
    if study.unknown:
        said = "".join(f"<li>{_with_code(one)}</li>" for one in study.unknown)
        body += ["<h2>What to keep in mind</h2>", f"<ul>{said}</ul>"]
    body += ["<h2>The seven implications of Helios</h2>", _implications(study)]
    for name, heading, told, parts in _sections(study):
        body.append(f"<h2>{escape(heading)}</h2><p>{_with_code(told)}</p>")
        if name in drawn:
            body.append(picture(heading, drawn[name]))
        body += parts
    return document(f"Trace study: {study.name}", body)


def _sections(study: Study) -> Iterable[tuple[str, str, str, list[str]]]:
    """Yield picture, heading, what is seen or why nothing is, and tables."""
    word = study.jobs.use_word
    also = f", and mean {word}," if study.lengths is not None else ""
    use = word.capitalize() if study.jobs.waits_known else "Demand, as if each job had run from its submission,"
    dotted = " Dotted: the GPUs of the cluster." if study.capacity is not None else ""
    yield (
        "course", "Over the trace",
        TOO_LONG if study.course is None
        else f"{use} and submissions.{dotted}" if study.lengths is not None else f"Submissions. {NO_LENGTHS}",
        [],
    )  # fmt: skip
    yield (
        "hours", "By hour of the day",
        TOO_LONG if study.daily is None
        else f"Means over all days.{_night(study)}",
        [],
    )  # fmt: skip
    yield (
        "months", "By month",
        TOO_LONG if study.monthly is None else f"Submissions{also} of the days in the trace.",
        [] if study.monthly is None else [tables.months(study.monthly, word)],
    )  # fmt: skip
    vcs = study.virtual_clusters
    yield (
        "virtual_clusters", "Virtual clusters",
        NO_VCS if vcs is None
        else f"The {min(len(vcs.names), SHOWN)} that use most. Boxes: quartiles of the hours.",
        [] if vcs is None else [tables.virtual_clusters(vcs, word)],
    )  # fmt: skip
    yield (
        "lengths", "Lengths",
        NO_LENGTHS if study.lengths is None else "Time with GPUs, as the fraction of jobs that are no longer.",
        [] if study.lengths is None else [tables.lengths(study.lengths)],
    )  # fmt: skip
    yield (
        "sizes",
        "Sizes",
        "Jobs by the GPUs that they ask for" + (", their GPU time and mean length." if also else "."),
        [tables.sizes(study.sizes)],
    )
    states = study.final_states
    yield (
        "final_states", "Final states",
        NO_STATES if states is None
        else "Time-outs and lost nodes count as failures in the picture, as in the paper.",
        [] if states is None else [tables.states(states)],
    )  # fmt: skip
    yield (
        "users", "Users",
        NO_USERS if study.users is None else "Left: what the users with most have of all.",
        [] if study.users is None else [tables.users(study.users)],
    )  # fmt: skip


def _night(study: Study) -> str:
    """Return how use differs at night, where hours are those of a clock and all of them are known."""
    daily = study.daily
    if daily is None or daily.use is None or not daily.dated or not np.isfinite(daily.use.mean).all():
        return ""
    night, rest = daily.use.mean[:NIGHT_ENDS].mean(), daily.use.mean[NIGHT_ENDS:].mean()
    if rest <= 0:
        return ""
    told = f" From 0 to {NIGHT_ENDS} h {study.jobs.use_word} is {share(float(night / rest))}"
    return f"{told} of that in the rest of the day."


def _with_code(text: str) -> str:
    """Return text as HTML, in which what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _implications(study: Study) -> str:
    rows = []
    for one in study.implications:
        claims = "".join(
            f"<li>{escape(claim.text)} <small>{_with_code(claim.told)}</small> <b>{claim.verdict}</b></li>"
            for claim in one.claims
        )
        rows.append(
            f'<tr><td>{one.number}</td><td>{escape(one.text)}</td><td class="{_KIND[one.verdict] or "unknown"}">'
            f"{one.verdict}</td><td><ul>{claims}</ul></td><td><small>{escape(one.paper)}</small></td></tr>"
        )
    head = (
        "<th></th><th>implication</th><th>here it</th><th>claims, and this trace's numbers</th><th>the paper</th>"
    )
    return f'<table class="words"><tr>{head}</tr>{"".join(rows)}</table>'
