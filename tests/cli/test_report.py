"""Runs are saved whole or refused, and a report of them needs nothing but itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from coadapt.cli.main import run
from coadapt.simulator.results.saved import COLUMNS, DESCRIPTION, describe, load, save

SMALL = ["--jobs", "5", "--rate", "60", "--cluster", "4x t4:4, 1x a100:4", "--policy", "sia", "--policy", "fifo"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in ("1", "2"):
        assert run(["simulate", *SMALL, "--seed", seed, "--out", str(folder / seed)]) == 0
    return folder


def test_a_run_is_read_back_as_it_was(runs: Path, tmp_path: Path) -> None:
    saved = load(runs / "1" / "sia")
    assert saved.policy == "sia"
    assert saved.about["seed"] == 1
    save(saved, tmp_path / "again")
    again = load(tmp_path / "again")
    assert again.outcome.workload.ids == saved.outcome.workload.ids
    assert again.outcome.workload.adaptivity == saved.outcome.workload.adaptivity
    assert again.outcome.holdings == saved.outcome.holdings
    assert again.outcome.cluster == saved.outcome.cluster
    np.testing.assert_array_equal(again.outcome.finished_s, saved.outcome.finished_s)
    assert again.figures() == saved.figures()
    written = describe(runs / "1" / "sia")["figures"]
    assert written["mean_jct_h"] == saved.figures()["mean_jct_h"]
    assert written["worst_rho"] > 0


def test_a_run_that_is_torn_foreign_or_changed_is_refused_in_one_sentence(runs: Path, tmp_path: Path) -> None:
    def broken(name: str) -> Path:
        save(load(runs / "1" / "sia"), tmp_path / name)
        return tmp_path / name

    torn = broken("torn")
    (torn / COLUMNS).write_bytes((torn / COLUMNS).read_bytes()[:-20])
    half = broken("half")
    (half / DESCRIPTION).unlink()
    lost = broken("lost")
    (lost / COLUMNS).unlink()
    cut = broken("cut")
    (cut / DESCRIPTION).write_text((cut / DESCRIPTION).read_text()[:50])
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / DESCRIPTION).write_text('{"name": "mine"}')
    newer = broken("newer")
    (newer / DESCRIPTION).write_text(json.dumps(describe(newer) | {"version": 99}))
    less = broken("less")
    (less / DESCRIPTION).write_text(json.dumps({k: v for k, v in describe(less).items() if k != "nodes"}))
    for folder, told in (
        (torn, "torn or of another run"),
        (half, "not written to its end"),
        (lost, "cannot be read"),
        (cut, "cannot be read as JSON"),
        (foreign, 'its "format" is not "coadapt-run"'),
        (newer, "version 99"),
        (less, "no whole run"),
        (tmp_path / "nowhere", "no saved run"),
    ):
        with pytest.raises(ValueError, match=told) as error:
            load(folder)
        assert "\n" not in str(error.value)


def test_a_report_is_one_page_that_fetches_nothing(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "pages" / "report.html"
    assert run(["report", str(runs), "--out", str(out)]) == 0
    told = capsys.readouterr().out.split()
    assert told[0] == str(out)
    assert {Path(path).name for path in told[1:]} >= {
        "cdfs.png",
        "active_jobs.png",
        "policy_time.png",
        "jobs_2.png",
    }
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in told[1:])
    text = out.read_text()
    sources = re.findall(r'(?:src|href)\s*=\s*"([^"]{0,30})', text)
    assert len(sources) == len(told) - 1
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not re.search(r"https?:|<script|@import|url\(", text)
    # Two traces: a mean with its deviation, and the difference to the first policy.
    assert text.count("±") > 10
    assert "worst FTF ratio" in text
    assert re.search(r'<small class="(better|worse)">[+-]\d+%', text)


def test_names_of_others_are_text_in_the_page(runs: Path, tmp_path: Path) -> None:
    saved = load(runs / "1" / "fifo")
    object.__setattr__(saved, "policy", "<script>alert(1)</script>")
    save(saved, tmp_path / "odd")
    assert run(["report", str(tmp_path / "odd"), "--out", str(tmp_path / "r.html"), "--top", "2"]) == 0
    assert "<script" not in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["nowhere"], "nowhere: no saved run"), (["{runs}", "--top", "0"], "--top: 0 must be at least 1")],
)
def test_a_bad_report_is_one_sentence(
    arguments: list[str], told: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", *[text.format(runs=runs) for text in arguments]]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_options_of_a_policy_are_in_its_label(tmp_path: Path) -> None:
    arguments = ["simulate", *SMALL[:6], "--policy", "sia", "--policy-option", "p=-1", "--out", str(tmp_path)]
    assert run(arguments) == 0
    assert load(tmp_path / "sia").policy == "sia p=-1"


def test_two_runs_of_the_same_jobs_are_compared_job_by_job(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(runs / "1" / "sia"), "--against", str(runs / "1" / "fifo"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["sia"][""]
    own, other = load(runs / "1" / "sia").outcome.jct_s, load(runs / "1" / "fifo").outcome.jct_s
    assert found["jobs"] == 5
    assert found["speedup_of_means"] == pytest.approx(other.mean() / own.mean())
    assert run(["report", str(runs / "1"), "--against", str(runs / "1" / "fifo")]) == 0
    assert "speed-up, geometric mean" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["1/sia", "--against", "2/fifo"],
            "differs); runs of one trace compare",
        ),
        (["1/sia", "--against", "1"], "holds 2 runs; the folder of one is accepted"),
        (["1/sia", "--against", "1/fifo", "--after", "-1"], "--after: -1 must be 0 hours or more"),
        (["1/sia", "--against", "1/fifo", "--after", "99"], "was submitted 99 h after the first one or later"),
        (["1/sia", "--json"], "--json and --after go with --against"),
    ],
)
def test_runs_that_do_not_compare_are_refused(
    runs: Path,
    arguments: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(runs)
    assert run(["report", *arguments]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
