"""`coadapt study` answers in short and as a page, for any trace, and refuses in one sentence."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from coadapt.cli.main import run
from coadapt.simulator.results.saved import save
from coadapt.simulator.traces.readers import jsonl

from tests.support.runs import saved
from tests.support.studies import a_month
from tests.support.traces import COPTER, HELIOS, PAI, PHILLY, SIA, written

JSON_LINES = '{"id": "a", "submit_s": 0, "duration_s": 1}\n'
GAVEL = "ResNet-18 (batch size 16)\tpython3 main.py\t--num_steps\t1\t100\t0.5\t1\n"
TRACES = {"sia": SIA, "copter": COPTER, "helios": HELIOS, "philly": PHILLY, "pai": PAI, "jsonl": JSON_LINES,
          "gavel": GAVEL}  # fmt: skip


@pytest.mark.parametrize("text", TRACES.values(), ids=TRACES.keys())
def test_a_trace_of_any_format_is_studied(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", str(written(tmp_path, text)), "--no-page"]) == 0
    told = capsys.readouterr().out
    assert "implication of Helios" in told
    assert "cannot be told" in told
    assert "nan" not in told
    assert list(tmp_path.iterdir()) == [tmp_path / "trace.csv"]


def test_the_answer_is_short_and_the_page_has_it_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = tmp_path / "month.jsonl", tmp_path / "pages" / "month.html"
    jsonl.write(trace, a_month(10))
    cluster = "8x any:8@big, 8x any:8@small"
    arguments = ["study", str(trace), "--cluster", cluster, "--began", "2020-09-01 00:00:00", "--out", str(out)]
    assert run(arguments) == 0
    told = capsys.readouterr().out
    assert len(told.splitlines()) < 60
    assert "2020-09-01" in told
    assert "of 128" in told, "the GPUs of the cluster"
    assert re.search(r"^wait  .* on average", told, re.MULTILINE)
    assert told.splitlines()[-1] == f"the page: {out}"
    page = out.read_text()
    assert not re.search(r"https?:|<script|@import|url\(", page)
    pictures = sorted(path.name for path in (tmp_path / "pages" / "month").iterdir())
    assert pictures == sorted(
        f"{name}.png"
        for name in ("course", "hours", "virtual_clusters", "lengths", "sizes", "final_states", "users")
    )
    assert page.count("data:image/png") == len(pictures)


def test_json_has_what_the_page_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", str(written(tmp_path, HELIOS)), "--no-page", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["sizes"]["most_gpus"]) == (2, 8)
    assert [one["number"] for one in found["implications"]] == list(range(1, 8))
    assert found["utilisation"] is None


def test_a_saved_run_knows_its_waits_and_its_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(saved(100.0, 50.0, 400.0, cluster="1x t4:1"), tmp_path / "runs" / "fifo")
    assert run(["study", str(tmp_path / "runs"), "--no-page", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trace"] == "t.csv under fifo"
    assert (found["use_is_demand"], found["gpus_of_cluster"]) == (False, 1)
    assert found["utilisation"] == pytest.approx(1.0)


def test_jobs_of_virtual_clusters_without_nodes_are_left_out_with_one_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = written(tmp_path, HELIOS)
    with pytest.warns(UserWarning, match=r"1 jobs left out, whose virtual clusters have no nodes \(vcB\)"):
        assert run(["study", str(trace), "--cluster", "1x any:8@vcA", "--no-page", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 1


# What is wrong -> the arguments behind the trace, and what is told.
REFUSED = {
    "a cluster that is none": (["--cluster", "many"], "--cluster: 'many' is not of the form"),
    "a cluster of others": (
        ["--cluster", "1x t4:4@x"],
        "--cluster: it has nodes for none of the trace's virtual clusters (vcA, vcB)",
    ),
    "a format that is unknown": (
        ["--format", "xml"],
        "--format: 'xml' is unknown; accepted: gavel, synergy, jsonl",
    ),
    "dates twice": (["--began", "2020-01-01"], "--began: '2020-01-01' is not accepted, as the trace has dates"),
    "a page and no page": (["--out", "x.html"], "--out names a page; give it without --no-page"),
}


@pytest.mark.parametrize(("arguments", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_options_are_refused_in_one_sentence(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["study", str(written(tmp_path, HELIOS)), "--no-page", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert told in " ".join(said.err.split())


def test_a_time_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", str(written(tmp_path, PAI)), "--no-page", "--began", "soon"]) == 2
    assert "--began: 'soon' is no time like 2020-09-01 00:00:03" in capsys.readouterr().err


def test_traces_that_are_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere, empty = tmp_path / "nowhere.csv", tmp_path / "empty"
    empty.mkdir()
    for path, told in ((nowhere, f"trace: {nowhere} does not exist"), (empty, f"{empty}: no saved run")):
        assert run(["study", str(path), "--no-page"]) == 2
        assert told in capsys.readouterr().err


def test_options_that_a_saved_run_has_itself_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        save(saved(100.0), tmp_path / name)
    for option, value in (("--cluster", "1x t4:4"), ("--format", "sia")):
        assert run(["study", str(tmp_path / "one"), option, value, "--no-page"]) == 2
        assert f"{option}: {value!r} is not accepted, as a saved run has its own" in capsys.readouterr().err
    assert run(["study", str(tmp_path), "--no-page"]) == 2
    assert f"trace: {tmp_path} holds 2 runs; name one of" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = written(tmp_path, PAI)
    assert run(["study", str(trace), "--out", str(trace / "page.html")]) == 2
    assert "--out: " in capsys.readouterr().err


def test_without_matplotlib_the_answer_needs_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    trace = str(written(tmp_path, PAI))
    assert run(["study", trace, "--out", str(tmp_path / "page.html")]) == 2
    assert "pictures need matplotlib" in capsys.readouterr().err
    assert run(["study", trace, "--no-page"]) == 0
