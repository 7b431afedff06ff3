"""Promises: options are chosen by replaying a trace, the defaults stay unless later jobs gain, and Ctrl-C keeps
what was tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from coadapt.cli import main as cli
from coadapt.cli.main import app
from coadapt.core.settings import Settings
from coadapt.deploy import settings_file
from coadapt.estimators.interpretable import needs
from coadapt.policies.catalogue import make_policy, options_model, policy_names
from coadapt.policies.las import LasOptions
from coadapt.policies.lucid import LucidOptions
from coadapt.policies.packed import PackedOptions
from coadapt.simulator.calibration.calibrate import Calibration, Tried, calibrate, split
from coadapt.simulator.calibration.space import Space, space_of
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.run import Simulation
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload
from pydantic import BaseModel, Field, model_validator
from typer.testing import CliRunner


class Kind(StrEnum):
    SLOW = "slow"
    FAST = "fast"


class Inner(BaseModel):
    count: int = Field(default=4, ge=1)
    limit_s: float = Field(default=100.0, gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> Inner:
        if self.count > self.limit_s:
            raise ValueError("count is more than limit_s")
        return self


class Example(BaseModel):
    kind: Kind = Kind.SLOW
    on: bool = False
    part: float = Field(default=0.5, ge=0, le=1)
    patience_s: float | None = Field(default=None, gt=0)
    extra: int = 0
    ends: tuple[float, float] = (0.25, 0.75)
    name: str = "x"
    fact: float = Field(default=2.0, json_schema_extra={"searched": False})
    inner: Inner = Inner(count=7)


def space(ranges: Mapping[str, str] | None = None, fixed: Mapping[str, Any] | None = None) -> Space:
    return space_of(Example, "policy example", ranges or {}, fixed or {})


def test_what_is_searched_and_between_what_follows_from_the_model() -> None:
    found = {one.name: one for one in space().choices}
    assert set(found) == {"kind", "on", "part", "inner.count", "inner.limit_s"}
    assert found["kind"].values == ("slow", "fast")
    assert (found["part"].low, found["part"].high) == (0.0, 1.0)
    # Without both bounds from a quarter to four times the default, which is that of the outer model.
    assert (found["inner.count"].low, found["inner.count"].high, found["inner.count"].whole) == (2, 28, True)
    assert (found["inner.limit_s"].low, found["inner.limit_s"].high) == (25.0, 400.0)


def test_ranges_add_options_and_values_take_them_out() -> None:
    found = space({"patience_s": "60:600", "ends.1": "0.6:0.9", "kind": "fast,slow"}, {"part": 0.25, "inner": {}})
    names = {one.name for one in found.choices}
    assert names == {"kind", "on", "patience_s", "ends.1"}
    point = {"kind": 0.0, "on": 1.0, "patience_s": 60.0, "ends.1": 0.8}
    options = found.options(point)
    assert options == {
        "part": 0.25, "inner": {}, "kind": "fast", "on": True, "patience_s": 60.0, "ends": [0.25, 0.8],
    }  # fmt: skip
    assert Example(**options).ends == (0.25, 0.8)


def test_a_part_that_is_changed_keeps_the_other_defaults_of_the_policy() -> None:
    options = space().options({**space().default, "inner.limit_s": 50.0})
    assert Example(**options).inner == Inner(count=7, limit_s=50.0)


def test_where_a_model_refuses_a_point_as_few_options_as_can_be_stay_at_their_defaults() -> None:
    found = space(fixed={"inner.limit_s": 10.0})
    options = found.options({**found.default, "inner.count": 20.0, "on": 1.0})
    assert options == {"inner": {"count": 7, "limit_s": 10.0}, "on": True}


@pytest.mark.parametrize(
    ("ranges", "fixed", "told"),
    [
        ({"speed": "1:2"}, {}, "--range: 'speed' is no option that can be searched; kind, on,"),
        ({"part": "0.5"}, {}, "--range: part=0.5 is not accepted, must be low:high, two rising numbers within"),
        ({"part": "0.5:2"}, {}, "within 0 and 1"),
        ({"part": "0.5:0.4"}, {}, "two rising numbers"),
        ({"kind": "slow"}, {}, "must be at least two of slow, fast"),
        ({"kind": "slow,quick"}, {}, "must be at least two of slow, fast"),
        ({"fact": "1:2"}, {}, "'fact' is no option that can be searched"),
        ({"part": "0:1"}, {"part": 0.5}, "--range: part has a value by --set, too"),
        ({}, {"speed": 1}, "policy example: option 'speed' is unknown"),
        ({}, {"part": 7}, "policy example: part: 7 is not accepted, must be a number from 0 to 1"),
        ({}, {"name.part": 7}, "name: has no part part"),
        ({}, {"ends.2": 1.0}, "ends: has no part 2"),
    ],
)  # fmt: skip
def test_bad_ranges_and_values_are_one_sentence(ranges: dict[str, str], fixed: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)) as raised:
        space(ranges, fixed)
    assert "\n" not in str(raised.value)


RULES = ("team_queues", "virtual_clock")  # whose options choose a rule and no number


@pytest.mark.parametrize("policy", RULES)
def test_a_policy_without_numbers_to_choose_is_refused(policy: str) -> None:
    with pytest.raises(ValueError, match=f"policy {policy}: none of its options can be searched"):
        space_of(options_model(policy), f"policy {policy}", {}, {})


@pytest.mark.parametrize("policy", [name for name in policy_names() if name not in RULES])
def test_what_is_drawn_of_each_policy_is_accepted_by_it(policy: str) -> None:
    found = space_of(options_model(policy), f"policy {policy}", {}, {})
    random = np.random.default_rng(0)
    for _ in range(20):
        point = {one.name: one.dimension.at(float(random.uniform())) for one in found.choices}
        make_policy(policy, **found.options(point))
    assert found.options(found.default) == {}


def test_the_profiler_of_packed_stays_off_and_facts_are_not_searched() -> None:
    names = {one.name for one in space_of(PackedOptions, "policy packed", {}, {}).choices}
    assert "profiler.nodes" not in names
    assert "profile_progress" not in names
    assert "giving_way.factor" in names
    assert "profiler.t_prof_s" in {one.name for one in space_of(LucidOptions, "policy lucid", {}, {}).choices}


# --- the search ---------------------------------------------------------------------------------------------


def jobs(count: int = 40) -> Workload:
    random = np.random.default_rng(3)
    at = np.cumsum(random.exponential(200.0, count))
    return Workload.of(
        TraceJob(id=f"j{i}", submit_s=float(s), gpus=int(random.choice([1, 1, 2, 4])), duration_s=float(d))
        for i, (s, d) in enumerate(zip(at, random.choice([60.0, 600.0, 4000.0], count), strict=True))
    )


def replay(workload: Workload, options: Mapping[str, Any], policy: str = "lucid") -> Simulation:
    nodes = read_cluster("2x a100:4")
    under = Conditions(timing=Timing(events=True))
    return simulation(workload, nodes, policy, options, source_of(False, None, nodes), under)


def las(workload: Workload, options: Mapping[str, Any]) -> Simulation:
    return replay(workload, options, "las")


def lucid(**fixed: Any) -> Space:
    return space_of(LucidOptions, "policy lucid", {}, fixed)


def test_the_defaults_are_first_the_choice_is_measured_on_later_jobs_and_a_seed_repeats_it() -> None:
    workload = jobs()
    found = calibrate(workload, lucid(), replay, 6, seed=1)
    assert found.trials[0].options == {}
    assert len(found.trials) == 6
    assert len({repr(one.options) for one in found.trials}) == 6
    assert (found.jobs, found.held_out_jobs) == (28, 12)
    part = replay(workload.select(np.arange(28)), found.best.options).run()
    assert found.best.mean_jct_s == pytest.approx(float(part.jct_s.mean()))
    whole = replay(workload, found.best.options).run()
    assert found.chosen_s == pytest.approx(float(whole.jct_s[28:].mean()))
    again = calibrate(workload, lucid(), replay, 6, seed=1)
    assert again.trials == found.trials
    assert again.chosen_s == found.chosen_s


def test_better_options_are_found_where_the_defaults_are_bad() -> None:
    # By default jobs are of the lowest level for 18,000 GPU-seconds, so that short jobs wait for long ones.
    found = calibrate(
        jobs(60), space_of(LasOptions, "policy las", {"thresholds_gpu_s.0": "100:40000"}, {}), las, 8
    )
    assert found.best.mean_jct_s < 0.95 * found.trials[0].mean_jct_s
    assert found.best.options["thresholds_gpu_s"][0] < 4000
    assert not found.keeps_defaults
    assert found.options == found.best.options


def test_the_defaults_stay_where_the_best_of_the_first_part_is_no_better_on_the_rest() -> None:
    found = Calibration(7, 3, [Tried({}, 100.0), Tried({"a": 1}, 90.0)], default_s=50.0, chosen_s=50.0)
    assert found.keeps_defaults
    assert found.options == {}
    found.chosen_s = 49.0
    assert not found.keeps_defaults
    assert found.options == {"a": 1}
    found.default_s = None  # interrupted
    assert found.options == {}


def test_a_trial_that_fails_is_told_and_counts_as_bad() -> None:
    workload = jobs()

    def fails(part: Workload, options: Mapping[str, Any]) -> Simulation:
        if options:
            raise ValueError("it cannot be")
        return replay(part, options)

    found = calibrate(workload, lucid(), fails, 3)
    assert [one.problem for one in found.trials] == ["", "it cannot be", "it cannot be"]
    assert found.best is found.trials[0]
    assert found.keeps_defaults


@pytest.mark.parametrize(("count", "held_out", "told"), [
    (9, 0.3, "trace: 9 jobs are too few to calibrate by; at least 10 are needed"),
    (40, 1.0, "held_out: 1 is not accepted, must be above 0 and below 1"),
    (40, 0.001, "too few"),
])  # fmt: skip
def test_a_trace_that_cannot_be_cut_is_refused(count: int, held_out: float, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        split(jobs(count), held_out)


def test_a_missing_library_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(needs.importlib, "import_module", none)
    with pytest.raises(needs.LibraryMissing, match="scikit-learn: is not installed; `pip install coadapt"):
        calibrate(jobs(), lucid(), lambda *_: pytest.fail("it ran"), 2)


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    workload, path = jobs(), tmp_path / "month.jsonl"
    rows = zip(workload.ids, workload.submit_s, workload.gpus, workload.duration_s, strict=True)
    lines = [
        json.dumps({"id": id, "submit_s": float(s), "gpus": int(g), "duration_s": float(d)})
        for id, s, g, d in rows
    ]
    path.write_text("\n".join(lines))
    return path


def command(trace: Path, *more: str) -> list[str]:
    return ["calibrate", str(trace), "--cluster", "2x a100:4", "--policy", "lucid", "--events", *more]


def test_the_command_shows_the_trials_and_writes_settings_that_up_accepts(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "chosen.yaml"
    made = CliRunner().invoke(app, command(trace, "--trials", "4", "--set", "packing=default", "--out", str(out)))
    assert made.exit_code == 0, made.output
    assert "mean JCT (s)" in made.output
    assert "The last 12 jobs were held out" in made.output
    chosen = yaml.safe_load(out.read_text())
    assert chosen["policy"] == "lucid"
    assert chosen["policy_options"]["packing"] == "default"
    settings = settings_file.with_file(Settings(), out)
    assert settings.policy == "lucid"
    make_policy(settings.policy, **settings.policy_options)


def test_json_has_all_trials(trace: Path) -> None:
    made = CliRunner().invoke(app, command(trace, "--trials", "3", "--json"))
    found = json.loads(made.stdout)
    assert len(found["trials"]) == 3
    assert found["held_out_mean_jct_s"]["default"] > 0
    assert found["policy_options"] == (
        {} if found["keeps_defaults"] else min(found["trials"], key=lambda one: one["mean_jct_s"])["options"]
    )


def test_files_about_all_jobs_serve_the_first_part_too(trace: Path, tmp_path: Path) -> None:
    estimates, usage = tmp_path / "estimates.csv", tmp_path / "usage.csv"
    estimates.write_text("job_id,estimate_s\n" + "".join(f"j{i},{100 + i}\n" for i in range(40)))
    usage.write_text("job_id,gpu_util_percent,memory_util_percent,memory_gib\nj39,10,5,1\n")
    files = ("--lengths", "estimated", "--estimates", str(estimates), "--usage", str(usage))
    made = CliRunner().invoke(app, command(trace, "--trials", "2", *files))
    assert made.exit_code == 0, made.output


def test_ctrl_c_keeps_what_was_tried(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Simulation.run
    ran = list[int]()

    def interrupted(self: Simulation) -> Any:
        ran.append(1)
        if len(ran) == 3:
            raise KeyboardInterrupt
        return begun(self)

    monkeypatch.setattr(Simulation, "run", interrupted)
    assert cli.run(command(trace, "--trials", "5")) == 130
    said = capsys.readouterr()
    assert "interrupted after 2 trials; nothing was chosen" in said.err
    assert "the defaults stay" in said.out
    assert said.out.count("\n") > 3  # the table of both


@pytest.mark.parametrize(("more", "told"), [
    (("--policy", "nobody"), "--policy: 'nobody' is unknown"),
    (("--trials", "0"), "--trials: 0 is not accepted"),
    (("--range", "least_left"), "--range: least_left is not of the form NAME=VALUE"),
    (("--range", "least_left=2:1"), "--range: least_left=2:1 is not accepted"),
    (("--set", "packing=much"), "packing"),
    (("--lengths", "guessed"), "--lengths: 'guessed'; accepted: told"),
])  # fmt: skip
def test_bad_input_of_the_command_is_one_sentence(trace: Path, more: tuple[str, ...], told: str) -> None:
    made = CliRunner().invoke(app, command(trace, *more))
    assert made.exit_code == 2
    assert told in " ".join(made.output.replace("│", " ").split())


@pytest.mark.parametrize(("text", "now", "told"), [
    ("- 1", {}, "holds no settings"),
    ("policy: fifo", {"policy": "las"}, "it names the policy fifo, and --policy las"),
    ("policy: las\npolicy_options: {}", {"policy": "las", "policy_options": True}, "--policy-option"),
    ("speed: 3", {}, "speed: unknown setting"),
    ("state_dir: /x", {}, "state_dir: the variable COADAPT_HOME names it"),
    ("a: [", {}, "chosen.yaml"),
])  # fmt: skip
def test_a_file_of_settings_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, text: str, now: dict[str, Any], told: str
) -> None:
    path = tmp_path / "chosen.yaml"
    path.write_text(text)
    made = CliRunner().invoke(
        app,
        ["up", "--emulate", "1x a100:4", "--settings", str(path)]
        + (["--policy", now["policy"]] if "policy" in now else [])
        + (["--policy-option", "type_blind=true"] if "policy_options" in now else []),
    )
    assert made.exit_code == 2
    assert told in " ".join(made.output.replace("│", " ").split())
    assert "--settings" in made.output
