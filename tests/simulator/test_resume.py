"""A simulation that is stopped in its middle goes on, and ends as if it had never been stopped."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from coadapt.cli.main import run
from coadapt.policies.catalogue import make_policy
from coadapt.simulator import resume
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.errors import Stuck
from coadapt.simulator.engine.outages import Failures
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.adaptive import AdaptiveWorld
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.knowledge import LearningKnowledge
from coadapt.simulator.results.saved import load
from coadapt.simulator.run import Simulation
from coadapt.simulator.synthetic import synthetic
from coadapt.simulator.traces.cluster_file import SimulatedCluster, cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

TYPES = ("t4", "a100")
PARTS = SimulatedCluster({"": cluster_of("3x t4:4, 2x a100:8")})
SMALL = ["simulate", "--jobs", "5", "--rate", "60", "--cluster", "2x t4:4", "--policy", "sia"]


def simulation(policy: str, jobs: int = 8) -> Simulation:
    """Return a simulation of jobs that measure with noise, on nodes that fail."""

    def engine(workload: Workload, on: object) -> Engine:
        made = make_policy(policy)
        if made.traits.fixed_sizes:
            workload = workload.tuned()
        known = FittedApplications(TYPES)
        trained = [known[name] for name in workload.applications]
        world = AdaptiveWorld(workload, trained, LearningKnowledge(workload, trained, noise=0.05, seed=3))
        return Engine(world, PARTS.parts[""], made, Timing(60.0), Failures(1_200.0, 600.0, 1))

    return Simulation(synthetic(jobs, 60.0, 1), PARTS, engine)


def assert_same(found: Outcome, expected: Outcome) -> None:
    assert found.holdings == expected.holdings
    for name in ("started_s", "finished_s", "held_s", "attained_gpu_s", "restarts", "preemptions", "failures"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(found.contention, expected.contention)


SLOW_ONE = pytest.param("pollux", marks=pytest.mark.slow)  # its searches take half a minute


@pytest.mark.parametrize(
    "policy", [pytest.param("sia", marks=pytest.mark.slow), SLOW_ONE, "themis", "srtf", "las", "fifo"]
)
def test_a_run_that_stops_every_few_rounds_gives_the_same_bit_for_bit(policy: str) -> None:
    once, stopped, steps = simulation(policy).run(), simulation(policy), 0
    while stopped.step():
        steps += 1
        if steps % 7 == 0:
            stopped = pickle.loads(pickle.dumps(stopped))
    assert steps > 30
    assert once.failures.sum() > 0
    assert_same(stopped.outcome(), once)


def test_virtual_clusters_go_on_too() -> None:
    jobs = [TraceJob(f"{vc}{i}", 50.0 * i, 1, 500.0, virtual_cluster=vc) for vc in "ab" for i in range(4)]
    parts = SimulatedCluster({vc: cluster_of("1x v100:1", f"{vc}-") for vc in "ab"})

    def made() -> Simulation:
        return Simulation(
            Workload.of(sorted(jobs, key=lambda job: job.submit_s)),
            parts,
            lambda part, on: Engine(FixedLengthWorld(part), on, make_policy("fifo"), Timing(60.0)),
        )

    stopped = made()
    for _ in range(40):
        assert stopped.step()
    assert_same(pickle.loads(pickle.dumps(stopped)).run(), made().run())


def test_a_resume_point_is_written_on_the_way_and_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point, rounds = tmp_path / resume.NAME, 0
    step = Simulation.step

    def dies(self: Simulation) -> bool:
        nonlocal rounds
        rounds += 1
        if rounds == 20:
            raise MemoryError
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "step", dies)
        with pytest.raises(MemoryError):
            resume.run(lambda: simulation("las"), point, {"seed": 1}, every_s=0.0)
    # What is made anew here is not what runs.
    assert_same(resume.run(lambda: simulation("fifo"), point, {"seed": 1}), simulation("las").run())


def test_what_is_no_resume_point_of_this_run_is_refused_before_it_is_unpickled(tmp_path: Path) -> None:
    point = tmp_path / resume.NAME
    resume.write(simulation("fifo"), point, {"seed": 1})
    whole = point.read_bytes()
    header, state = whole.split(b"\n", 1)
    with pytest.raises(ValueError, match="holds a run with seed 1, and this one has 2"):
        resume.read(point, {"seed": 2})
    for content, told in {
        b"": "is no resume point",
        b"{}\n": "is no resume point",
        header.replace(b'"version": 1', b'"version": 0') + b"\n" + state: "another version",
        header.replace(b'"made_by": "', b'"made_by": "0') + b"\n" + state: "another version",
        whole[:-10]: "is torn",
        header + b"\n" + pickle.dumps(os.getcwd): "is torn",
    }.items():
        point.write_bytes(content)
        with pytest.raises(ValueError, match=told) as error:
            resume.read(point, {"seed": 1})
        assert "remove it to begin anew" in str(error.value)


def test_ctrl_c_ends_the_round_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run([*SMALL, "--out", str(tmp_path / "whole")]) == 0
    steps = 0
    step = Simulation.step

    def pressed(self: Simulation) -> bool:
        nonlocal steps
        steps += 1
        if steps == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self)

    monkeypatch.setattr(Simulation, "step", pressed)
    capsys.readouterr()
    command = [*SMALL, "--out", str(tmp_path / "stopped")]
    assert run(command) == 130
    told = capsys.readouterr().err
    assert "interrupted under sia, " in told
    assert "of 5 jobs have ended; the same command goes on from there" in told
    assert run(["report", str(tmp_path / "stopped"), "--out", str(tmp_path / "r.html")]) == 2  # nothing yet
    assert run(command) == 0
    assert steps < 2 * 30 + load(tmp_path / "whole" / "sia").outcome.policy_s.size
    assert_same(load(tmp_path / "stopped" / "sia").outcome, load(tmp_path / "whole" / "sia").outcome)
    assert not list(tmp_path.rglob(resume.NAME))


PRESSED = """
import os, signal, sys
from coadapt.cli.main import run
from coadapt.simulator.run import Simulation

step, steps = Simulation.step, 0

def pressed(self):
    global steps
    steps += 1
    if steps == 30:
        os.kill(os.getpid(), signal.SIGINT)
    return step(self)

Simulation.step = pressed
sys.exit(run(sys.argv[1:]))
"""


def test_another_process_goes_on(tmp_path: Path) -> None:
    def simulate(folder: str, program: Sequence[str], hash_seed: str) -> int:
        command = [sys.executable, *program, *SMALL, "--out", str(tmp_path / folder)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, capture_output=True, timeout=120, env=environment).returncode

    coadapt = ["-m", "coadapt.cli.main"]
    assert simulate("stopped", ["-c", PRESSED], "1") == 130
    assert (tmp_path / "stopped" / "sia" / resume.NAME).is_file()
    assert simulate("stopped", coadapt, "2") == 0
    assert simulate("whole", coadapt, "3") == 0
    assert_same(load(tmp_path / "stopped" / "sia").outcome, load(tmp_path / "whole" / "sia").outcome)


def test_a_run_of_other_inputs_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*SMALL, "--out", str(tmp_path)]
    assert run(command) == 0
    before = (tmp_path / "sia" / "run.json").read_bytes()
    for other, told in {
        ("--seed", "4"): "seed 0, and this one has 4",
        ("--policy-option", "p=-1"): "policy_options {}, and this one has {'p': -1}",
        ("--cluster", "3x t4:4"): "cluster '2x t4:4', and this one has '3x t4:4'",
        ("--jobs", "6"): "trace 'synthetic 5 at 60/h', and this one has 'synthetic 6 at 60/h'",
        ("--noise", "0.1"): "noise 0.0, and this one has 0.1",
        ("--node-mtbf", "9"): "a run without node_mtbf_h, and this one has 9.0",
    }.items():
        assert run([*command, *other]) == 2
        assert told in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "sia" / "run.json").read_bytes() == before


def test_a_run_that_is_there_is_not_run_again_and_a_torn_one_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*SMALL, "--out", str(tmp_path), "--json"]
    assert run(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert run(command) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == first
    assert "is there already, not run again" in shown.err
    columns = tmp_path / "sia" / "columns.npz"
    columns.write_bytes(columns.read_bytes()[:50])
    assert run(command) == 0
    assert "not run again" not in capsys.readouterr().err
    assert load(tmp_path / "sia").policy == "sia"


def test_a_run_that_can_never_end_leaves_no_resume_point(tmp_path: Path) -> None:
    def stuck() -> Simulation:
        workload = Workload.of([TraceJob("a", 0.0, 1, 500.0), TraceJob("b", 0.0, 99, 1.0)])
        return Simulation(
            workload, PARTS, lambda part, on: Engine(FixedLengthWorld(part), on, make_policy("fifo"))
        )

    with pytest.raises(Stuck):
        resume.run(stuck, tmp_path / resume.NAME, {}, every_s=0.0)
    assert not list(tmp_path.iterdir())
