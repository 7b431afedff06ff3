"""The conditions of a run are those that its words say, and `--same-conditions` makes them the same for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coadapt.cli.main import run
from coadapt.policies.catalogue import policy_class, policy_names
from coadapt.simulator.conditions import EARLY_S, KNOWLEDGE, OPEN, Conditions, column, differing, shared
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outages import Failures
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.jobs.knowledge import Knows
from coadapt.simulator.replay import simulation
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload

SMALL = ["simulate", "--jobs", "3", "--rate", "60", "--cluster", "4x t4:4"]


def words(policy: str, under: Conditions) -> dict[str, str]:
    return column(policy_class(policy).traits, under).described(under)


def test_a_policy_has_what_it_counts_on_where_nothing_is_asked_for() -> None:
    sia, coadapt = (column(policy_class(name).traits, Conditions()) for name in ("sia", "coadapt"))
    assert (sia.timing.early_s, sia.knows, sia.profiled) == (None, Knows.BOOTSTRAP, True)
    assert (coadapt.timing.early_s, coadapt.knows, coadapt.profiled) == (EARLY_S, Knows.PROFILE_CACHE, True)
    assert not column(policy_class("fifo").traits, Conditions()).profiled


def test_what_is_asked_for_is_the_same_for_every_policy() -> None:
    asked = Conditions(Timing(30.0, early_s=5.0), Knows.ORACLE)
    columns = {name: words(name, asked) for name in policy_names()}
    assert not set(differing(columns)[0]) & {"rounds", KNOWLEDGE}


def test_the_same_conditions_differ_in_nothing_that_could_be_the_same() -> None:
    names, common = differing({name: words(name, Conditions(same=True)) for name in policy_names()})
    assert names == ["GPUs of a job", "speed of jobs on one GPU"]
    assert set(OPEN) <= set(common)


def started_s(policy: str, **asked: Any) -> float:
    """Return when the only job of a trace starts, in s after its submission."""
    job = TraceJob("a", 10.0, 1, application="cifar10", batch_size=128)
    outcome: Outcome = simulation(
        Workload.of([job]), read_cluster("1x t4:1"), policy, {}, FittedApplications(["t4"]), Conditions(**asked)
    ).run()
    return float(outcome.started_s[0]) - 10.0


def test_under_the_same_conditions_jobs_of_every_policy_wait_for_their_profiles_and_start_early() -> None:
    assert started_s("fifo") == 50.0  # at the next full minute
    assert started_s("fifo", profiling_s=30.0, same=True) == 30.0 + EARLY_S
    assert started_s("sia", profiling_s=30.0, same=True) == 30.0 + EARLY_S


def test_words_say_what_was_asked_for() -> None:
    under = Conditions(Timing(events=True), noise=0.05, failures=Failures(7200.0, 1800.0))
    found = column(policy_class("las").traits, under).described(under, ("a", "b"))
    assert found["rounds"] == "when jobs arrive or end"
    assert found["noise of measurements"] == "5.00%"
    assert found["node failures"] == "each node after 2 h on average, for 0.5 h"
    assert found["pools"] == "a, b: each by itself"


@pytest.mark.parametrize(("pool", "told"), [("lab", "none; those that the trace names are ignored"), ("", "none")])
def test_a_trace_that_names_pools_may_run_on_one_cluster_and_this_is_said(
    pool: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    job = {"id": "a", "submit_s": 0, "gpus": 1, "duration_s": 60, "virtual_cluster": pool}
    trace.write_text(json.dumps(job) + "\n")
    assert run(["simulate", "--trace", str(trace), "--cluster", "1x t4:4", "--policy", "fifo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fifo"]["conditions"]["pools"] == told


def test_what_differs_between_runs_of_a_column_is_said_to_differ() -> None:
    told = shared([{"rounds": "x", "pools": "none"}, {"rounds": "y", "pools": "none"}])
    assert told == {"rounds": "not the same in every run", "pools": "none"}


def test_conditions_stand_below_the_figures_in_the_json_and_in_saved_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*SMALL, "--policy", "las", "--policy", "coadapt"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.index("makespan") < printed.index("conditions that differ") < printed.index("--same-conditions")
    kept = [*SMALL, "--policy", "las", "--out", str(tmp_path), "--same-conditions", "--json"]
    assert run(kept) == 0
    found = json.loads(capsys.readouterr().out)["las"]["conditions"]
    assert found["rounds"] == "every 60 s, and 0.5 s after a job arrives or ends"
    assert json.loads((tmp_path / "las" / "run.json").read_text())["conditions"] == found
    # Under other conditions it is another run.
    assert run([*SMALL, "--policy", "las", "--knows", "profile-cache", "--out", str(tmp_path)]) == 2
    assert "same_conditions True" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
def test_impossible_profiling_costs_are_one_sentence(value: float) -> None:
    with pytest.raises(ValueError, match="profiling_s"):
        Conditions(profiling_s=value)


def test_what_identifies_a_run_names_only_what_was_asked_for() -> None:
    assert set(Conditions().about()) == {"seed", "round_interval_s", "events", "noise", "profiling_cost_s"}
    asked = Conditions(Timing(early_s=1.0), failures=Failures(3600.0, 1800.0), same=True).about()
    assert asked["early_s"] == 1.0
    assert np.isclose([asked["node_mtbf_h"], asked["node_repair_h"]], [1.0, 0.5]).all()
    assert asked["same_conditions"] is True


@pytest.mark.parametrize(
    ("part", "lengths", "told"),
    [
        ("0", "told", "what is true"),
        ("0.5", "told", "estimates by the curve so far, of jobs that a metric ends; of others, what is true"),
        ("1", "told", "estimates by the curve so far, of jobs that a metric ends"),
        ("1", "unknown", "nothing"),
    ],
)
def test_lengths_of_jobs_that_a_metric_ends_come_from_the_trace_and_are_not_told(
    part: str, lengths: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(f'{{"id": "{i}", "submit_s": 0, "gpus": 1, "duration_s": 600}}\n' for i in range(4)))
    asked = ["simulate", "--trace", str(trace), "--cluster", "1x t4:4", "--policy", "fifo", "--lengths", lengths]
    assert run([*asked, "--deadlines", f"strict=0.5,metric={part}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["fifo"]["conditions"]
    assert found["told of how long jobs take"] == told
    source = "as the trace says, also where a metric ends them"
    assert found.get("how long jobs take") == (None if part == "0" else source)
