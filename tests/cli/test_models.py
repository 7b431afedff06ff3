"""`coadapt models`: a table becomes a model that one can read, explain, correct and export, by commands alone."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from coadapt.cli.main import run
from coadapt.core.settings import Settings
from coadapt.estimators import learned_file
from coadapt.estimators.durations import sums
from coadapt.estimators.durations.features import COLUMNS
from coadapt.estimators.interpretable import model_file

from tests.support.interpretable import table

Printed = pytest.CaptureFixture[str]


def jobs(path: Path, rows: int = 200, classes: bool = False) -> Path:
    """Write jobs as CSV: load, gpus, owner by name, share, when, and how long or which kind."""
    of = table(rows, classes=("long", "short") if classes else ())
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["load", "gpus", "owner", "share", "when", "hours"])
        for n, (row, answer) in enumerate(zip(of.rows, of.target, strict=True)):
            load = "" if np.isnan(row[0]) else row[0]
            said = of.classes[int(answer)] if classes else answer
            writer.writerow([load, int(row[1]), of.features[2].categories[int(row[2])], row[3], 60 * n, said])
    return path


def fitted(tmp_path: Path, family: str, classes: bool = False) -> str:
    data, model = jobs(tmp_path / "jobs.csv", classes=classes), tmp_path / "hours.json"
    line = ["models", "fit", str(data), "--target", "hours", "--time", "when", "--family", family]
    assert run([*line, "--budget", "1", "--out", str(model)]) == 0
    return str(model)


def ran(capsys: Printed, *line: str) -> str:
    assert run(["models", *line]) == 0
    return capsys.readouterr().out


def refused(capsys: Printed, *line: str) -> str:
    assert run(["models", *line]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1, told
    return told.removeprefix("coadapt: ").strip()


def test_a_sum_is_fitted_read_explained_corrected_refitted_and_exported(tmp_path: Path, capsys: Printed) -> None:
    model = fitted(tmp_path, "additive")
    assert "hours: sum of 4 terms and" in ran(capsys, "show", model)
    assert re.search(r"\n  alice +[+-]", ran(capsys, "show", model, "--term", "owner"))
    told = ran(capsys, "explain", model, "--set", "owner=bob", "--set", "gpus=4", "--set", "load=0.5")
    assert re.match(r"hours [\d.]+ = [\d.]+ mean\n", told)
    assert "owner = bob" in told
    row = json.loads(ran(capsys, "explain", model, "--rows", str(tmp_path / "jobs.csv"), "--row", "7", "--json"))
    assert row["mean"] + sum(part["score"] for part in row["parts"]) == pytest.approx(row["prediction"])
    assert "changed: load" in ran(capsys, "constrain", model, "--monotone", "load=decreasing", "--pairs", "drop")
    assert "changed: owner" in ran(capsys, "constrain", model, "--by-hand", "owner:carol=9")
    before = model_file.read(Path(model)).fitted
    fitted(tmp_path, "additive")
    assert "2 corrections are kept" in capsys.readouterr().out
    again = model_file.read(Path(model))
    assert again.fitted is not before
    assert len(again.corrections) == 2
    shown = ran(capsys, "show", model)
    assert "corrected: load is decreasing; pairs that would undo it: drop" in shown
    assert "corrected: owner carol: 9.0 by hand" in shown
    assert "owner carol" not in ran(capsys, "constrain", model, "--undo")
    assert "double hours(const double *x)" in ran(capsys, "export", model, "--language", "c", "--name", "hours")
    assert "hours: hours, sum of 4 terms" in ran(capsys, "list", str(tmp_path))


def test_a_tree_shows_rules_and_the_nearest_cases_that_came_out_otherwise(tmp_path: Path, capsys: Printed) -> None:
    model = fitted(tmp_path, "tree", classes=True)
    assert re.search(r"\nif .* <= .*: hours (long|short)", ran(capsys, "show", model))
    line = ["explain", model, "--rows", str(tmp_path / "jobs.csv"), "--row", "3", "--wanted", "short", "-k", "2"]
    told = ran(capsys, *line)
    assert "\nso hours " in told
    assert len(re.findall(r"(?m)^row \d+ came out as short, [\d.e+-]+ away: ", told)) == 2
    out = tmp_path / "hours.js"
    assert run(["models", "export", model, "--language", "javascript", "--out", str(out)]) == 0
    assert "function predict(x)" in out.read_text()


def test_pictures_are_written(tmp_path: Path, capsys: Printed) -> None:
    model = fitted(tmp_path, "additive")
    ran(capsys, "constrain", model, "--monotone", "load=decreasing", "--pairs", "drop")
    pair = json.loads(ran(capsys, "show", model, "--json"))["importances"]
    names = next((one["name"] for one in pair if " and " in one["name"]), "gpus").replace(" and ", ",")
    lines = [
        ["show", model], ["show", model, "--term", "load"], ["show", model, "--term", "owner"],
        ["show", model, "--term", names], ["explain", model, "--set", "gpus=2"],
    ]  # fmt: skip
    for number, line in enumerate(lines):
        out = tmp_path / f"{number}.png"
        ran(capsys, *line, "--out", str(out))
        assert out.read_bytes().startswith(b"\x89PNG")
    (tmp_path / "tree").mkdir()
    tree = fitted(tmp_path / "tree", "tree", classes=True)
    ran(capsys, "constrain", tree, "--by-hand", "gpus:1:4=short")
    assert run(["models", "show", tree, "--out", str(tmp_path / "tree.png")]) in (
        0,
        2,
    )  # 2: more leaves than one reads


def test_what_a_service_has_learned_is_shown_and_a_correction_becomes_its_option(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path))
    random = np.random.default_rng(0)
    rows = np.zeros((400, len(COLUMNS)))
    rows[:, COLUMNS.index("gpus")] = random.integers(1, 9, 400)
    rows[:, COLUMNS.index("owner")] = random.integers(0, 2, 400)
    found = sums.fit(
        rows, rows[:, 3] + random.normal(size=400), {"owner": {"ann": 0, "bob": 1}, "pool": {}}, seed=0
    )
    document = {"form": "ours", "trees": found.to_json(), "spread": found.to_json(), "codes": {}}
    learned_file.write(Path(Settings().learned_dir) / "durations.json", "durations", document, 5.0)
    assert "durations: log of seconds, sum of 22 terms" in ran(capsys, "list")
    assert re.search(r"\n  ann +[+-]", ran(capsys, "show", "durations", "--term", "owner"))
    told = ran(capsys, "constrain", "durations", "--monotone", "gpus", "--pairs", "drop")
    option = re.search(r"--service-option 'durations\.corrections=(.*)'", told)
    assert option is not None
    assert json.loads(option[1]) == [{"monotone": "gpus", "direction": "increasing", "pairs": "drop"}]
    wrong = refused(capsys, "show", "duration")
    nobody = "duration: is no file, and no service has a model of that name that one can read"
    assert wrong == f"{nobody}: durations, durations.error"


def test_without_a_model_the_list_says_how_one_comes_about(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path))
    assert run(["models", "list"]) == 0
    assert "services have one with the option model=additive" in capsys.readouterr().err


FIT = ("fit", "{csv}", "--target", "hours", "--out", "{model}")
BAD = [
    ((*FIT[:2], "--target", "hour", "--out", "{model}"), "feature: 'hour' is unknown; the nearest is 'hours'"),
    ((*FIT, "--budget", "0"), "budget: 0 is not accepted, must be a whole number of at least 1"),
    ((*FIT, "--lambda", "-1"), "lambda, gamma: -1.0, 0.5 are not accepted, must be 0 or more"),
    ((*FIT, "--microseconds", "0"), "microseconds: 0.0 is not accepted, must be above 0"),
    ((*FIT, "--time", "owner"), "{csv}: line 2: 'alice' is no time, must be seconds or ISO 8601"),
    (("show", "{csv}"), "{csv}: is torn or no model: Expecting value: line 1 column 1 (char 0)"),
    (("show", "{model}", "--term", "gpu"), "feature: 'gpu' is unknown; the nearest is 'gpus'"),
    (("show", "{model}", "--term", "owner,gpus"),
     "--term: owner,gpus is no term of this model; accepted: load; gpus; owner"),
    (("explain", "{model}"), "give the case: --set NAME=VALUE, or --rows FILE.csv with --row N"),
    (("explain", "{model}", "--set", "gpus"), "--set: gpus is not of the form NAME=VALUE"),
    (("explain", "{model}", "--set", "gpus=many"), "gpus: 'many' is not accepted, must be a number"),
    (("explain", "{model}", "--set", "owner=eve"),
     "owner: 'eve' is no category of it; accepted: alice, bob, carol"),
    (("explain", "{model}", "--row", "1"), "--row: goes with --rows FILE.csv"),
    (("explain", "{model}", "--set", "gpus=1", "--wanted", "x"), "--wanted: goes with --rows FILE.csv"),
    (("constrain", "{model}"), "give --monotone, --by-hand or --undo"),
    (("constrain", "{model}", "--monotone", "owner"),
     "owner: is a category, which has no order; only features of numbers can be monotone"),
    (("constrain", "{model}", "--monotone", "gpus=up"),
     "--monotone: gpus=up: 'up' is not accepted, must be increasing or decreasing"),
    (("constrain", "{model}", "--by-hand", "gpus=1"),
     "--by-hand: gpus is not accepted, must be NAME:LOWEST:HIGHEST, NAME:CATEGORY or NAME:missing"),
    (("constrain", "{model}", "--by-hand", "gpus:1:2=much"),
     "value: 'much' is not accepted, must be a finite score"),
    (("export", "{model}", "--language", "fortran"),
     "language: 'fortran' is not accepted, must be one of c, javascript, python, sql"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "sentence"), BAD)
def test_what_cannot_be_is_refused_in_one_sentence(
    line: tuple[str, ...], sentence: str, tmp_path: Path, capsys: Printed
) -> None:
    from coadapt.estimators.interpretable.model_file import Kept

    from tests.support.interpretable import additive

    data, model = jobs(tmp_path / "jobs.csv", 30), tmp_path / "hours.json"
    if line[0] != "fit":
        model_file.write(model, Kept(additive(pairs=0)))
    names = {"csv": str(data), "model": str(model)}
    told = refused(capsys, *(part.format(**names) for part in line))
    assert told.startswith(sentence.format(**names)[:60]), told
    assert told.split(": ", 1)[-1].startswith(sentence.format(**names).split(": ", 1)[-1][:60])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; a line of names and rows are accepted"),
        ("a,hours\n1,2\n3\n", "line 3 has 1 values for 2 columns"),
        ("a,a,hours\n1,2,3\n", "column 'a' is there twice; each name is accepted once"),
        ("a,hours\n", "hours: is empty; at least two rows are accepted"),
        ("a,hours\n1,5\n2,5\n", "hours: all 2 rows are 5; two different values are accepted"),
        ("a,hours\n1,5\n2,\n", "hours: row 1 is not a finite number"),
        ("hours\n1\n2\n", "no column is left to learn from, beside hours"),
    ],
)
def test_tables_that_teach_nothing_are_refused(text: str, sentence: str, tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    told = refused(capsys, "fit", str(path), "--target", "hours", "--out", str(tmp_path / "m.json"))
    assert told.endswith(sentence)


def test_a_requirement_that_nobody_meets_names_the_nearest(tmp_path: Path, capsys: Printed) -> None:
    data = jobs(tmp_path / "jobs.csv", 60)
    line = ["fit", str(data), "--target", "hours", "--out", str(tmp_path / "m.json"), "--budget", "1"]
    told = refused(capsys, *line, "--kilobytes", "0.001")
    assert re.fullmatch(
        r"requirement: nobody meets it; the nearest is \w+: bytes 1, and [\d.e+]+ can be met", told
    )
    assert not (tmp_path / "m.json").exists()
