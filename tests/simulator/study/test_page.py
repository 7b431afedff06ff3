"""A page has every picture, table and sentence of its study, and shows names of others as text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from coadapt.simulator.study.page import page
from coadapt.simulator.traces.workload import TraceJob

from tests.support.studies import POOR, a_month, whole

ALL = ("course", "hours", "months", "virtual_clusters", "lengths", "sizes", "final_states", "users")


def text_of(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", html)


def test_a_page_fetches_nothing_and_says_all() -> None:
    found = whole(a_month(40), {"big": 64, "small": 64})
    drawn = {name: name.encode() for name in ALL}
    html = page(found, drawn)
    sources = re.findall(r'(?:src|href)\s*=\s*"([^"]{0,30})', html)
    assert len(sources) == len(ALL)
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not re.search(r"https?:|<script|@import|url\(", html)
    said = text_of(html)
    for one in found.implications:
        assert one.text in said
        for claim in one.claims:
            assert claim.told in said.replace("&#x27;", "'")
    for heading in (
        "By hour of the day",
        "By month",
        "Virtual clusters",
        "Lengths",
        "Sizes",
        "Final states",
        "Users",
    ):
        assert heading in said
    assert "From 0 to 8 h use is" in said


@pytest.mark.parametrize("jobs", POOR.values(), ids=POOR.keys())
def test_a_page_of_a_poor_trace_says_what_is_not_known(jobs: list[TraceJob]) -> None:
    found = whole(jobs)
    said = text_of(page(found, {}))
    assert "nan" not in said
    for sentence in found.unknown:
        assert sentence.split("`")[0].strip() in said


def test_names_of_others_are_text() -> None:
    jobs = [replace(job, user="<b>", virtual_cluster="<i>") for job in a_month(3)]
    html = page(replace(whole(jobs), name="<script>"), {})
    assert "<script" not in html
    assert "<td>&lt;b&gt;</td>" in html
    assert "<td>&lt;i&gt;</td>" in html


def test_columns_that_nobody_knows_are_left_out() -> None:
    assert "mean wait" in page(whole(a_month(3)), {})
    assert "mean wait" not in page(whole(a_month(3, waits=False)), {})


def test_long_tables_are_cut_and_say_so() -> None:
    jobs = [replace(job, virtual_cluster=f"vc{i:04}") for i, job in enumerate(a_month(2))]
    assert "and 40 more" in text_of(page(whole(jobs), {}))
