"""A sweep runs every combination once, whatever stops it in between."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from coadapt.cli.main import run, simulate
from coadapt.simulator import sweep as sweeping
from coadapt.simulator.results.saved import COLUMNS, find, load
from coadapt.simulator.sweep_file import SweepFile, cells, read_sweep

PLACEMENTS = "local_bsz,step_time,sync_time,placement\n8,1.0,0.0,1\n16,1.6,0.0,1\n8,1.2,0.1,2\n16,1.8,0.1,2\n"
SCALABILITY = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n1,4,8,1.5,0.3\n1,4,16,2.1,0.3\n"
VALIDATION = "progress,iteration,metric,grad_sqr,grad_var\n100,100,0,1.0,4.0\n200,200,0,1.0,8.0\n"
JOBS = (
    "name,time,application,num_replicas,batch_size\nb,9,tiny,1,16\na,0,tiny,2,16\nc,20,tiny,8,64\nd,30,tiny,4,64\n"
)
PAI = "job_id,arrival_s,service_sec,gpu_count\nj1,10,100,1\nj2,20,50,2\nj3,30,10,2\n"
SIA = """name,time,application,num_replicas,batch_size
job-0,0,cifar10,1,256
job-1,30,cifar10,2,512
job-2,40,bert,2,24
job-3,100,cifar10,4,512
"""
GRID = """
policies: [fifo, {name: las, options: {thresholds_gpu_s: [100]}, label: las at 100}]
traces: [one.csv, two.csv]
clusters: ["1x any:2"]
seeds: [0, 1]
round_interval_s: 10
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    (tmp_path / "one.csv").write_text(PAI)
    (tmp_path / "two.csv").write_text(PAI.replace("j1,10,100", "j1,10,200"))
    (tmp_path / "grid.yaml").write_text(GRID)
    return tmp_path / "grid.yaml"


def test_every_combination_is_run_and_the_figures_are_means_over_traces(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["sweep", str(grid), "--out", str(out), "--no-ray", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"fifo", "las at 100"}
    assert len(find(out)) == 8
    # Under fifo the makespan is 160 s and 260 s, for each of two seeds.
    assert found["fifo"]["makespan_h"]["mean"] * 3600 == pytest.approx(210)
    assert found["fifo"]["makespan_h"]["std"] * 3600 == pytest.approx(100 / 3**0.5)
    assert run(["report", str(out), "--out", str(tmp_path / "r.html")]) == 0
    assert run(["sweep", str(grid), "--out", str(out), "--no-ray"]) == 0
    assert "±" in capsys.readouterr().out


def test_a_sweep_that_was_stopped_goes_on_with_what_is_missing(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, ran = tmp_path / "out", []
    once = sweeping.run_cell

    def stops(cell: sweeping.Cell, folder: Path) -> sweeping.Done:
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(cell)
        return once(cell, folder)

    monkeypatch.setattr(sweeping, "run_cell", stops)
    assert run(["sweep", str(grid), "--out", str(out), "--no-ray"]) == 130
    assert "goes on with what is missing" in capsys.readouterr().err
    assert len(find(out)) == 3
    # One of them was torn when the machine went down.
    torn = find(out)[0] / COLUMNS
    torn.write_bytes(torn.read_bytes()[:100])
    again: list[sweeping.Cell] = []
    monkeypatch.setattr(sweeping, "run_cell", lambda cell, folder: (again.append(cell), once(cell, folder))[1])
    assert run(["sweep", str(grid), "--out", str(out), "--no-ray"]) == 0
    assert len(again) == 8 - 3 + 1
    assert len([load(folder) for folder in find(out)]) == 8


def test_a_run_that_cannot_be_is_told_and_the_others_go_on(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "two.csv").write_text(PAI.replace("j2,20,50,2", "j2,20,50,9"))
    assert run(["sweep", str(grid), "--out", str(tmp_path / "out"), "--no-ray", "--json"]) == 1
    shown = capsys.readouterr()
    assert "fifo, two.csv, seed 0: no job runs" in shown.err
    assert json.loads(shown.out)["fifo"]["jobs"]["mean"] == 3


@pytest.mark.live
def test_tasks_of_a_local_ray_do_the_same(grid: Path, tmp_path: Path) -> None:
    grid.write_text(GRID.replace("[0, 1]", "[0]"))
    arguments = ["sweep", str(grid), "--out", str(tmp_path / "out"), "--num-cpus", "2", "--json"]
    # In a process of its own: it starts a Ray, and other tests are connected to theirs.
    ended = subprocess.run(
        [sys.executable, "-m", "coadapt.cli.main", *arguments], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["fifo"]["makespan_h"]["mean"] * 3600 == pytest.approx(210)


def test_what_changes_a_run_changes_its_folder(grid: Path, tmp_path: Path) -> None:
    before = [sweeping.folder_of(cell, tmp_path) for cell in cells(read_sweep(grid), tmp_path)]
    assert len(set(before)) == 8
    grid.write_text(GRID.replace("round_interval_s: 10", "round_interval_s: 20"))
    assert not set(before) & {sweeping.folder_of(cell, tmp_path) for cell in cells(read_sweep(grid), tmp_path)}


def test_a_trace_that_was_written_over_is_run_again(grid: Path, tmp_path: Path) -> None:
    assert run(["sweep", str(grid), "--out", str(tmp_path / "out"), "--no-ray"]) == 0
    (first, *_) = [cell for cell in cells(read_sweep(grid), tmp_path) if cell.trace_shown == "two.csv"]
    (tmp_path / "two.csv").write_text(PAI.replace("j1,10,100", "j1,10,900"))
    fresh = [cell for cell in cells(read_sweep(grid), tmp_path) if not sweeping.is_done(cell, tmp_path / "out")]
    assert {cell.trace_shown for cell in fresh} == {"two.csv"}
    assert len(fresh) == 4
    (same,) = [cell for cell in fresh if (cell.policy, cell.seed) == (first.policy, first.seed)]
    before = load(sweeping.folder_of(first, tmp_path / "out"))
    after = load(sweeping.run_cell(same, tmp_path / "out").folder)
    assert after.outcome.jct_s.sum() > before.outcome.jct_s.sum()


def test_a_sweep_takes_what_a_single_simulation_does() -> None:
    renamed = {
        "trace": "traces", "format": "traces", "jobs": "traces", "rate": "traces", "cluster": "clusters",
        "policy": "policies", "policy_option": "policies", "seed": "seeds", "round_interval": "round_interval_s",
        "early": "early_s", "profiling_cost": "profiling_cost_s", "node_mtbf": "node_mtbf_h",
        "node_repair": "node_repair_h", "service": "services", "service_option": "services",
        "boot": "boot_s", "split": "traces", "sizes": "traces", "at_once": "traces",
        "deadlines": "traces",
    }  # fmt: skip
    only_simulate = {"out", "as_json", "explain", "at", "scaling"}  # what is bought makes a cluster of its own
    options = set(inspect.signature(simulate).parameters) - only_simulate
    assert {renamed.get(name, name) for name in options} == set(SweepFile.model_fields)


def figures(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    assert run([*arguments, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out).values()
    del found["conditions"]
    means = {name: value["mean"] if isinstance(value, dict) else value for name, value in found.items()}
    return {name: value for name, value in means.items() if not name.startswith("policy")}  # wall times


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("early_s: 5", "--early 5"),
        ("node_mtbf_h: 2\nnode_repair_h: 0.1\nseeds: [3]", "--node-mtbf 2 --node-repair 0.1 --seed 3"),
        ("profiling_cost_s: 100", "--profiling-cost 100"),
        pytest.param("noise: 0.3\nknows: no-profile", "--noise 0.3 --knows no-profile", marks=pytest.mark.slow),
        pytest.param("events: true", "--events", marks=pytest.mark.slow),
        pytest.param("same_conditions: true", "--same-conditions", marks=pytest.mark.slow),
    ],
)
def test_a_field_of_a_sweep_does_what_the_option_of_a_simulation_does(
    field: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text(SIA)
    (tmp_path / "s.yaml").write_text(f'policies: [sia]\ntraces: [jobs.csv]\nclusters: ["2x t4:4"]\n{field}\n')
    swept = figures(["sweep", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "a"), "--no-ray"], capsys)
    one = ["simulate", "--trace", str(tmp_path / "jobs.csv"), "--cluster", "2x t4:4"]
    single = figures([*one, *option.split(), "--out", str(tmp_path / "b")], capsys)
    assert swept == single
    plain = figures([*one, "--out", str(tmp_path / "c")], capsys)
    assert single["mean_jct_h"] != plain["mean_jct_h"]


def test_a_sweep_hides_lengths_as_a_simulation_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long_first = "job_id,arrival_s,service_sec,gpu_count\nheld,0,100,2\nlong,1,1000,2\nshort,2,10,2\n"
    (tmp_path / "jobs.csv").write_text(long_first)
    found = {}
    for lengths in ("told", "unknown"):
        text = f'policies: [sjf]\ntraces: [jobs.csv]\nclusters: ["1x any:2"]\nlengths: {lengths}\n'
        (tmp_path / f"{lengths}.yaml").write_text(text)
        swept = ["sweep", str(tmp_path / f"{lengths}.yaml"), "--out", str(tmp_path / lengths), "--no-ray"]
        one = ["simulate", "--trace", str(tmp_path / "jobs.csv"), "--cluster", "1x any:2", "--policy", "sjf"]
        found[lengths] = figures(swept, capsys)
        alone = figures([*one, "--lengths", lengths, "--out", str(tmp_path / f"alone-{lengths}")], capsys)
        assert found[lengths] == alone
    assert found["told"]["mean_jct_h"] < found["unknown"]["mean_jct_h"]  # the short job is not served first


@pytest.mark.parametrize("ray", [False, pytest.param(True, marks=pytest.mark.live)])
def test_a_warning_of_runs_is_told_once_with_the_run_s_name(ray: bool, tmp_path: Path) -> None:
    model = tmp_path / "profiles" / "tiny"
    model.mkdir(parents=True)
    (model / "placements-aws.csv").write_text(PLACEMENTS)  # t4
    (model / "scalability-aws.csv").write_text(SCALABILITY)
    for batch_size in (16, 64):
        (model / f"validation-{batch_size}.csv").write_text(VALIDATION)
    # Not in order; the last one is on more nodes than were measured.
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "s.yaml").write_text(
        "policies: [fifo, las]\ntraces: [jobs.csv]\nseeds: [0, 1]\nprofiles: profiles\n"
        'clusters: ["2x t4:4, 1x a100:8"]\n'
    )
    command = ["sweep", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "out"), "--num-cpus", "2", "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "coadapt.cli.main", *command, *([] if ray else ["--no-ray"])],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if "warning: " in line]
    for about in ("job a was submitted before job b", "not measured on a100", "placements such as"):
        (line,) = [line for line in lines if about in line]
        assert line.split("warning: ")[1].startswith(("fifo, jobs.csv, seed ", "las, jobs.csv, seed "))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("policies: [fifo]\nevents: true\nearly_s: 1", "early_s: rounds at events have no fixed times"),
        ("policies: [fifo]\nearly_s: -1", "early_s: -1 is not accepted"),
        ("policies: [fifo]\nnode_mtbf_h: 0", "node_mtbf_h: 0 is not accepted"),
        ("", "the file is empty"),
        ("[sia]", "a sweep is a mapping of fields"),
        ("policies: [sia]\npolicies: [fifo]", "policies is given twice"),
        ("traces: [one.csv]", "policies: is missing"),
        ("policies: []", "policies: [] is not accepted"),
        ("policies: [best]", "'best' is unknown; accepted"),
        ("policies: [{name: sia, options: {q: 1}}]", "option 'q' is unknown"),
        ("policies: [fifo, fifo]", "policies: 'fifo' stands twice"),
        ("policies: [fifo]\nseed: 1", "seed: is no field of a sweep; accepted: policies, traces"),
        ("policies: [fifo]\ntraces: [none.csv]", "none.csv does not exist"),
        ("policies: [fifo]\ntraces: [{jobs: 0}]", "traces.0.jobs: 0 is not accepted"),
        ("policies: [fifo]\nclusters: [six]", "cluster: 'six' is not of the form"),
        ("policies: [fifo]\nknows: all", "knows: 'all' is not accepted"),
        ("policies: [fifo]\nround_interval_s: .nan", "round_interval_s: nan is not accepted"),
        ("policies: [fifo]\nnoise: .inf", "noise: inf is not accepted"),
        ("policies: [fifo]\nprofiles: nowhere", "nowhere is no folder"),
        ("policies: [!!python/name:os.system x]", "is not accepted"),
    ],
)
def test_a_bad_file_is_one_sentence(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    assert run(["sweep", str(tmp_path / "bad.yaml"), "--out", str(tmp_path / "out"), "--no-ray"]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert told in shown
    assert "bad.yaml" in shown
    assert not (tmp_path / "out").exists()
