"""COpter's table: runs go on where they stopped, and the programs written are those that were solved."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from coadapt.benchmarks import copter_table
from coadapt.benchmarks.copter_table import Run
from coadapt.benchmarks.programs import read
from coadapt.optimizer.allocation import ChoiceProgram
from coadapt.optimizer.copter.baselines.milp import solve
from coadapt.policies.catalogue import make_policy
from coadapt.simulator import resume

APPLICATIONS = ("bert", "llama")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a small trace of two applications in place of the published one."""
    profiles, workloads = tmp_path / "profiles", tmp_path / "workloads"
    profiles.mkdir()
    (profiles / "bert.csv").write_text(
        "progress,aws:1n1g,aws:1n4g,aws:2n8g,rtx:1n2g\n200,1,3,5,4\n900,1,3.5,6,4\n"
    )
    units = {"azure": {"min_gpus": 2, "throughput": 5}, "quadro": {"min_gpus": 1, "throughput": 3}}
    llama = {"num_iters": 9000, "sim_speedup": 2, "gpu_profiles": units}
    (profiles / "batch_inference.json").write_text(json.dumps({"llama": llama}))
    for thousands, step_s in ((2, 60.0), (40, 7.0)):
        folder = workloads / f"{thousands}kjobs_24hrs_pai"
        folder.mkdir(parents=True)
        rows = [f"j{i},{i * step_s},SiaJob,{APPLICATIONS[i % 2]}" for i in range(40 if thousands == 40 else 12)]
        (folder / "workload-1.csv").write_text("\n".join(["name,time,category,application", *rows]))
    monkeypatch.setattr(copter_table, "COPTER", tmp_path)


def run(out: Path, hours: float | None = None) -> Run:
    return Run(2, "ilp", hours, 0, 1e-3, 5.0, out)


def test_a_cluster_has_256_gpus_of_seven_types_times_its_scale() -> None:
    assert sum(node.gpus for node in copter_table.cluster(1).nodes) == 256
    assert sum(node.gpus for node in copter_table.cluster(40).nodes) == 10_240
    assert len(copter_table.cluster(1).gpu_types) == 7


def test_a_drawn_workload_has_every_job_as_often_and_within_the_day() -> None:
    base = copter_table.workload(40_000, 0)
    drawn = copter_table.drawn(base, 100, 3)
    assert len(set(drawn.ids)) == len(drawn) == 100
    assert (np.diff(drawn.submit_s) >= 0).all()
    assert drawn.submit_s.max() <= base.submit_s.max()
    copies = [id.split("+")[0] for id in drawn.ids]
    assert {copies.count(id) for id in base.ids} == {2, 3}
    of = dict(zip(base.ids, zip(base.applications, base.submit_s.tolist(), strict=True), strict=True))
    for name, application, at in zip(copies, drawn.applications, drawn.submit_s.tolist(), strict=True):
        assert application == of[name][0]
        assert abs(at - of[name][1]) <= copter_table.JITTER_S
    again, other = copter_table.drawn(base, 100, 3), copter_table.drawn(base, 100, 4)
    assert again.ids == drawn.ids
    assert other.submit_s.tolist() != drawn.submit_s.tolist()


def test_the_table_has_the_figures_of_every_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short, whole = run(tmp_path / "out", hours=0.1), run(tmp_path / "out")
    copter_table.UPDATES.seconds = 1e3  # of whatever was done before
    change = ChoiceProgram.upsert
    for one in (short, whole):
        one.run()
    assert ChoiceProgram.upsert is change  # or changes would count twice from the second run on
    found = json.loads(whole.done.read_text())
    assert found["jobs"] == 12
    assert whole.is_done
    assert not replace(whole, gap=1e-4).is_done
    assert not replace(whole, seed=1).is_done
    assert json.loads(short.done.read_text())["jobs"] == 6
    rounds = np.load(whole.folder / "rounds.npz")
    assert len(rounds["now_s"]) == found["rounds"]
    assert found["most_active"] == rounds["jobs"].max()
    assert (rounds["solver_s"] <= rounds["decided_s"]).all()
    assert (rounds["decided_s"] <= rounds["policy_s"]).all()
    copter_table.report([whole])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert figures["2_ilp_mean_jct_h"] == pytest.approx(found["mean_jct_h"], abs=1e-4)


def test_methods_are_compared_with_the_fastest_of_the_others() -> None:
    def taking(s: float, jct_h: float = 1.0) -> dict[str, float]:
        keys = ("solver_p50_s", "solver_p99_s", "decided_p50_s", "decided_p99_s")
        return {key: s * (2 if "p99" in key else 1) for key in keys} | {"mean_jct_h": jct_h, "makespan_h": 2.0}

    found = {"structured": taking(0.1, 0.99), "continual": taking(1.5), "highs-hot": taking(1.2)}
    ours_next = copter_table.compared({**found, "continual": taking(0.5)})
    assert ours_next["next_over_structured_solver_p50"] == pytest.approx(5)
    assert ours_next["peer_over_structured_solver_p50"] == pytest.approx(12)  # the engine is ours
    ratios = copter_table.compared({**found, "highs-ipm": taking(12.0), "highs-pdlp": taking(30.0)})
    assert ratios["next_over_structured_solver_p99"] == pytest.approx(12)
    assert ratios["scratch_over_continual_decided_p50"] == pytest.approx(8)  # not hot simplex
    assert ratios["structured_mean_jct_over_lp"] == pytest.approx(0.99)
    assert ratios["structured_makespan_over_lp"] == 1
    assert not any("scratch" in name or "lp" in name for name in copter_table.compared(found))
    assert copter_table.compared({"structured": taking(0.1)}) == {}


def test_an_interrupted_run_goes_on_and_one_of_other_code_begins_anew(tmp_path: Path) -> None:
    whole, stopped, torn = run(tmp_path / "a"), run(tmp_path / "b"), run(tmp_path / "c")
    whole.run()
    policy = copter_table.Recorded(make_policy("sia", **stopped.about()["options"]))
    part = copter_table.simulation(copter_table.workload(2000, 0), 2, policy, 0)
    for _ in range(5):
        part.step()
    resume.write(part, stopped.folder / resume.NAME, stopped.about())
    torn.folder.mkdir(parents=True)
    (torn.folder / resume.NAME).write_text("{}")
    expected = json.loads(whole.done.read_text())
    for one in (stopped, torn):
        one.run()
        found = json.loads(one.done.read_text())
        assert (found["mean_jct_h"], found["rounds"]) == (expected["mean_jct_h"], expected["rounds"])
        assert not (one.folder / resume.NAME).exists()


def test_changes_count_in_the_round_that_makes_them() -> None:
    policy = copter_table.Recorded(copter_table.sia(copter_table.options_of("structured", 1e-3, 5.0)))
    simulated = copter_table.simulation(copter_table.workload(2_000, 0), 2, policy, 0)
    with copter_table.UPDATES.watching(ChoiceProgram):
        for _ in range(5):
            simulated.step()
            assert copter_table.UPDATES.take() == 0.0
    assert any(jobs > 0 for _, jobs, *_ in policy.rounds)


def test_a_dumped_round_is_the_program_that_was_solved(tmp_path: Path) -> None:
    asked = Namespace(
        scales=[2], methods=["ilp"], seed=0, gap=1e-6, time_limit_s=5.0, dump_rounds=tmp_path / "rounds", every=2,
        skip_hours=0.05, from_hour=0.1, rounds=3,
    )  # fmt: skip
    copter_table.dump(asked)
    files = sorted((tmp_path / "rounds").iterdir())
    assert [int(file.stem.removeprefix("round-")) for file in files] == [360, 480, 600]
    for file in files:
        found = np.load(file)
        ids, program = read(file)
        assert ids == tuple(found["ids"])
        assert len(ids) > 3
        assert program.allowed.any(axis=1).all()
        assert solve(program, gap=1e-6).objective == pytest.approx(float(found["objective"]), rel=2e-6)
        picked = np.flatnonzero(found["choice"] >= 0)
        chosen = found["choice"][picked]
        assert program.allowed[picked, chosen].all()
        assert program.value[picked, chosen].sum() == pytest.approx(float(found["objective"]))
        assert (program.usage[:, chosen].sum(axis=1) <= program.capacity).all()


def test_where_the_data_is_not_there_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copter_table, "COPTER", tmp_path / "none")
    monkeypatch.setattr("sys.argv", ["copter_table", "--scales", "10"])
    with pytest.raises(SystemExit, match="none: not there; COADAPT_DATA says where"):
        copter_table.main()
    with pytest.raises(ValueError, match=r"workload-1\.csv does not exist"):
        copter_table.workload(10_000, 0)
