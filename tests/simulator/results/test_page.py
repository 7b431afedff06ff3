"""A page compares runs with those of the first column, and shows names of others as text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from coadapt.simulator.results.page import hours_table, metrics_table, page
from coadapt.simulator.results.saved import SavedRun

from tests.support.runs import saved


def cells(table: str, row: str) -> list[str]:
    """Return the cells of a row of a table, without marks."""
    (found,) = re.findall(rf"<tr><td>{re.escape(row)}</td>(.*?)</tr>", table)
    return [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td>(.*?)</td>", found)]


ONE, TWICE = saved(100.0), saved(200.0)


def test_a_figure_is_beside_its_difference_to_the_first_column() -> None:
    table = metrics_table({"one": [ONE], "twice": [TWICE], "tenfold": [saved(1000.0)]})
    assert cells(table, "JCT, mean (h)") == ["0.0278", "0.0556 +100%", "0.278 ×10"]


@pytest.mark.parametrize(
    ("first", "second", "kind"), [(ONE, TWICE, "worse"), (TWICE, ONE, "better"), (ONE, ONE, "")]
)
def test_whether_it_is_better_or_worse_is_marked(first: SavedRun, second: SavedRun, kind: str) -> None:
    assert f'<small class="{kind}">' in metrics_table({"a": [first], "b": [second]})


def test_several_traces_are_a_mean_with_its_deviation_and_one_is_a_number() -> None:
    table = metrics_table({"both": [ONE, TWICE], "one": [ONE]})
    assert cells(table, "JCT, mean (h)") == ["0.0417 ± 0.0196", "0.0278 -33%"]


def test_what_is_not_known_is_a_dash_and_compared_with_nothing() -> None:
    unknown = saved(100.0, rho=np.array([np.nan]))
    assert cells(metrics_table({"a": [unknown], "b": [ONE]}), "worst FTF ratio")[0] == "-"
    assert "%" not in cells(metrics_table({"a": [unknown], "b": [ONE]}), "worst FTF ratio")[1]


def test_hours_are_by_application_and_type_and_their_sum() -> None:
    table = hours_table({"run": [ONE]})
    assert re.findall(r"<t[dh]>([^<]*)</t[dh]>", table) == [
        "run", "application", "t4", "all", "run", "jobs of given length", "0.0278", "0.0278",
    ]  # fmt: skip


def test_a_page_names_its_traces_at_most_eight_of_them_and_holds_its_pictures() -> None:
    runs = [saved(100.0, seed=seed) for seed in range(10)]
    text = page("Runs & more", {"<b>": runs}, [("A picture", "what is seen", b"PNG")])
    assert "Runs &amp; more" in text
    assert "<td>&lt;b&gt;</td>" in text
    assert "t.csv (seed 7) and 2 more" in text
    assert 'alt="A picture" src="data:image/png;base64,UE5H"' in text
