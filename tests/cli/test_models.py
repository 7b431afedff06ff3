"""`coadapt models`: a table becomes a model that one can read, explain, correct and export, by commands alone."""

from __future__ import annotations

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

from tests.support.bad_models import jobs

Printed = pytest.CaptureFixture[str]


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


def test_a_table_from_a_spreadsheet_and_what_a_fit_has_no_place_for(tmp_path: Path, capsys: Printed) -> None:
    model = fitted(tmp_path, "additive")
    assert "changed: owner" in ran(capsys, "constrain", model, "--by-hand", "owner:carol=9")
    data = (tmp_path / "jobs.csv").read_text().replace("carol", "dave")
    (tmp_path / "sheet.csv").write_text(data, encoding="utf-8-sig")  # as spreadsheets write it
    first = data.partition(",")[0]
    line = ["models", "fit", str(tmp_path / "sheet.csv"), "--target", "hours", "--leave-out", first]
    assert run([*line, "--family", "additive", "--budget", "1", "--out", model]) == 0
    assert "; 1 correction is kept, and this fit has no place for 1 of them" in capsys.readouterr().out
    assert "corrected: owner carol: 9.0 by hand (waits for a fit that has a place for it)" in ran(
        capsys, "show", model
    )
    assert "'carol' is no category" in refused(capsys, "constrain", model, "--by-hand", "owner:carol=8")


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
    assert "durations: log over like jobs, sum of 26 terms" in ran(capsys, "list")
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
