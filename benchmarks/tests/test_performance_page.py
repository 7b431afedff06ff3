"""The performance page says what was measured, what was promised, and what failed."""

import json

import pytest
from coadapt.benchmarks import performance
from coadapt.benchmarks.performance import BENCHMARKS, Benchmark, Figure, Result, failed, page, parse


def test_the_last_line_gives_figures_and_machine() -> None:
    lines = ["machine: 2 x CPU", json.dumps({"benchmark": "x", "figures": {"a": 1}})]
    assert parse(lines, "x") == ({"a": 1}, "2 x CPU")


@pytest.mark.parametrize(
    "lines", [[], ["Traceback"], ['{"benchmark": "y", "figures": {}}'], ['{"figures": 3}'], ["3"]]
)
def test_output_without_figures_is_an_error(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="no line of JSON"):
        parse(lines, "x")


def test_targets_are_judged() -> None:
    assert Figure("a", "", "<= 0.03").met(0.03) is True
    assert Figure("a", "", ">= 5e6").met(4e6) is False
    assert Figure("a", "", "= 0").met(0) is True
    assert Figure("a", "").met(1) is None
    assert Figure("a", "", "<= 1").met(None) is None


def test_a_failed_run_keeps_the_last_good_figures_and_is_marked() -> None:
    good = Result({"pairs_per_s": 6e6}, "2 x CPU", 1.0)
    text = page({"goodput_matrix": failed(good, "exit status 1")})
    assert "**Failed**" in text
    assert "6,000,000" in text


def test_runs_made_by_hand_are_taken_from_what_they_printed_and_named(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(performance, "KEPT", tmp_path / "performance.json")
    monkeypatch.setattr(performance, "PAGE", tmp_path / "performance.md")
    for name, figures in (("one", {"p50_s": 1.0, "gpus": 7}), ("two", {"p50_s": 2.0, "jobs": 9})):
        last = json.dumps({"benchmark": "whole_round", "figures": figures})
        (tmp_path / name).write_text(f"a table\nmachine: {name} x CPU\n{last}\n")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert performance.main(["--only", "whole_round", "--log", "", one, "--log", "--gpus 7", two]) == 0
    (kept,) = performance.load().values()
    assert kept.figures == {"p50_s": 2.0, "gpus": 7, "jobs": 9}
    text = performance.PAGE.read_text()
    assert "* `whole_round`: one x CPU.\n* `whole_round --gpus 7`: two x CPU.\n" in text
    for wrong in (
        ["--log", "", one],
        ["--only", "demo", "--log", "", one],
        ["--only", "demo", "--log", "", "none"],
    ):
        with pytest.raises(SystemExit):
            performance.main(wrong)
        assert "--log: " in capsys.readouterr().err
    assert list(performance.load()) == ["whole_round"]


def test_the_page_opens_with_what_is_met_and_what_is_missed() -> None:
    results = {
        "equivalence": Result({"max_abs_param_diff": 1.0, "samples_repeated": 0}),
        "real_scripts": Result({"scripts": 1, "right": 1, "wrong": 0}, failure="now: broken"),
    }
    _, opening, *_ = page(results).split("\n\n")
    assert " ".join(opening.split()) == (
        "2 of 5 targets are met. `equivalence` missed one: `max_abs_param_diff` was 1, promised ≤ 1e-5. "
        "`real_scripts` missed 2 of 3. The last run of `real_scripts` failed."
    )


def test_figures_that_nothing_is_said_of_stand_apart() -> None:
    text = page({"demo": Result({"jobs": 6, "runs": 1})})
    table, others = text.split("<details><summary>1 other figures</summary>")
    assert "| `jobs` | jobs submitted | 6 | ≥ 6 | met |" in table
    assert "| `runs` | 1 |" in others


def test_every_benchmark_has_a_section_even_without_figures() -> None:
    text = page({})
    assert all(f"## {benchmark.name}" in text for benchmark in BENCHMARKS)


def test_a_page_is_written_whole_and_other_figures_stay(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(performance, "KEPT", tmp_path / "performance.json")
    monkeypatch.setattr(performance, "PAGE", tmp_path / "performance.md")
    performance.save({"a": Result({"x": 1}), "b": Result({"y": 2}, failure="now: broken")})
    assert performance.load() == {"a": Result({"x": 1}), "b": Result({"y": 2}, failure="now: broken")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["performance.json", "performance.md"]


def test_a_benchmark_that_ends_badly_is_a_failure_with_its_reason(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(performance, "ROOT", tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("")
    (tmp_path / "benchmarks" / "broken.py").write_text("raise SystemExit('no data')")
    result = performance.run(Benchmark("broken", "", ()), Result())
    assert "it said: no data" in result.failure
