"""What a user relies on: simulated jobs follow the CPUs and the memory that a policy gives them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.derived import DURATIONS, PHILLY_GPUS, Derived, asked_by, derived
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.input_bound import InputBoundWorld
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.sweep_file import cells, read_sweep
from coadapt.simulator.traces.cluster_file import WHOLE, SimulatedCluster
from coadapt.simulator.traces.input_profiles import CPUS, InputProfiles, is_profiles, read_profiles
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import TraceJob, Workload

HUNGRY = np.minimum(CPUS, 9) / 3
FILE = {
    "models": {
        "image_1": {"tput": np.repeat(HUNGRY[:, None], 5, axis=1).tolist(), "iter_time": 0.5},
        "text_1": {"tput": np.ones((9, 5)).tolist(), "iter_time": 2.0},
        "text_2": {"tput": np.ones((9, 4)).tolist(), "iter_time": 2.0},
    }
}


@pytest.fixture
def profiles(tmp_path: Path) -> InputProfiles:
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps(FILE))
    return read_profiles(path)


def server(count: int = 1, gpus: int = 8, cpus: float = 24.0, memory_gib: float = 500.0) -> Cluster:
    return Cluster(tuple(Node(f"v100-{at:03d}", "v100", gpus, cpus, memory_gib) for at in range(count)))


def jobs(*rows: tuple[str, float, int, str, float]) -> Workload:
    """Return jobs of (id, submission, GPUs, model, seconds at the share)."""
    return Workload.of(
        TraceJob(id=id, submit_s=at, gpus=gpus, application=model, duration_s=took)
        for id, at, gpus, model, took in rows
    )


def engine(
    profiles: InputProfiles, work: Workload, where: Cluster, mechanism: str | None, **options: object
) -> Engine:
    chosen = {} if mechanism is None else {"provisioning": mechanism}
    return Engine(
        InputBoundWorld(work, profiles, where), where, make_policy("fifo", **chosen, **options), Timing(300.0)
    )


def took_s(made: Engine) -> dict[str, float]:
    outcome = made.run()
    return dict(zip(outcome.workload.ids, outcome.jct_s.tolist(), strict=True))


def test_a_job_is_as_fast_as_its_cpus(profiles: InputProfiles) -> None:
    work = jobs(("image", 0, 1, "image", 3000.0), ("text", 0, 1, "text", 3000.0))
    assert took_s(engine(profiles, work, server(), "proportional")) == {"image": 3000.0, "text": 3000.0}
    assert took_s(engine(profiles, work, server(), "tune")) == {"image": pytest.approx(1000.0), "text": 3000.0}
    assert took_s(engine(profiles, work, server(), None)) == {"image": 3000.0, "text": 3000.0}


def test_richer_servers_make_the_share_itself_faster(profiles: InputProfiles) -> None:
    work = jobs(("image", 0, 1, "image", 3000.0))
    assert took_s(engine(profiles, work, server(cpus=48.0), "proportional")) == {"image": pytest.approx(1500.0)}


def test_other_cpus_alone_are_no_restart_and_no_pause(profiles: InputProfiles) -> None:
    # Six jobs that gain come while one runs, which then has 3 CPUs instead of 9, and 9 again at the end.
    late = [(f"i{at}", 900.0, 1, "image", 900.0) for at in range(7)]
    work = jobs(("first", 0, 1, "image", 9000.0), *late)
    made = engine(profiles, work, server(), "tune")
    held: list[tuple[float, float]] = []

    def watch(round: Round, plan: Plan) -> None:
        if (placement := plan.placements.get("first")) is not None:
            held.append((round.now, sum(share.cpus for share in placement.shares)))

    made.watch = watch
    outcome = made.run()
    assert [cpus for now, cpus in held if now in (300.0, 900.0)] == [9.0, 3.0]
    assert outcome.restarts.tolist() == [0] * 8
    # 900 s at triple speed, then 900 s at the share, then triple again.
    assert outcome.jct_s[0] == pytest.approx(900 + 900 + (9000 - 2700 - 900) / 3)


def test_amounts_change_in_rounds_alone_and_a_stopped_job_keeps_its_progress(
    profiles: InputProfiles,
) -> None:
    # The long job is stopped at 600 s for a shorter one on all GPUs, and goes on at 1,200 s with what it has done.
    work = jobs(
        ("long", 0, 8, "text", 3000.0), ("short", 450.0, 8, "text", 500.0), ("stays", 2000.0, 1, "image", 9e3)
    )
    where = server(2)
    seen: list[tuple[float, dict[str, dict[str, int]]]] = []

    def watch(round: Round, plan: Plan) -> None:
        seen.append((round.now, {job: dict(at.by_node) for job, at in plan.placements.items()}))

    one = server()
    world = InputBoundWorld(work.select([0, 1]), profiles, one, lambda gpus: 0.0)
    outcome = Engine(world, one, make_policy("srtf", provisioning="tune"), Timing(300.0), watch=watch).run()
    assert [now for now, held in seen if "short" in held] == [600.0, 900.0]
    assert outcome.finished_s.tolist() == [1200.0 + 3000.0 - 600.0, 1100.0]
    assert {change.time_s % 300.0 for change in outcome.holdings if change.gpus} == {0.0}
    seen.clear()
    world = InputBoundWorld(work, profiles, where, lambda gpus: 0.0)
    Engine(world, where, make_policy("srtf", provisioning="tune"), Timing(300.0), watch=watch).run()
    for job in work.ids:  # there is room for all, so who runs stays where it is
        assert len({tuple(held[job]) for _, held in seen if job in held}) == 1


def test_the_slowest_node_sets_the_pace(profiles: InputProfiles) -> None:
    uneven = Cluster((Node("a", "v100", 1, 9.0, 100.0), Node("b", "v100", 1, 3.0, 100.0)))
    work = jobs(("wide", 0, 2, "image", 3000.0))
    assert took_s(engine(profiles, work, uneven, None)) == {"wide": 3000.0}
    world = InputBoundWorld(work, profiles, uneven, split_penalty=0.5)
    made = Engine(world, uneven, make_policy("fifo", provisioning="proportional"), Timing(300.0))
    assert took_s(made) == {"wide": 6000.0}


def test_what_policies_are_told(profiles: InputProfiles) -> None:
    work = jobs(("image", 0, 1, "image", 3000.0), ("text", 0, 2, "text", 600.0))
    told = InputBoundWorld(work, profiles, server(cpus=48.0)).told
    assert told.remaining_s(np.array([0, 1]), np.array([0.0, 100.0])).tolist() == [1500.0, 500.0]
    assert told.expected(0, 0.0).mean_s == 1500.0
    assert told.sensitivity(0) is profiles.models["image"].sensitivity


def test_published_traces_are_read_and_replayed(tmp_path: Path) -> None:
    trace, file = tmp_path / "trace.csv", tmp_path / "profiles.json"
    trace.write_text("0,image,0.0,2000,1\n1,text,0.001,300,2\n")
    file.write_text(json.dumps(FILE))
    work = read_trace(trace)
    assert work.ids == ("0", "1")
    assert work.steps.tolist() == [2000, 300]
    nodes = SimulatedCluster({WHOLE: server()})
    source = source_of(True, file, nodes)
    under = Conditions(timing=Timing(300.0))
    outcome = simulation(work, nodes, "srtf", {"provisioning": "priced"}, source, under).run()
    assert outcome.jct_s.tolist() == pytest.approx([1000 / 3, 600 + 299.999])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0,image,0.0,2000\n", "line 1: has 4 fields"),
        ("0,image,-1,2000,1\n", "arrival -1 is not accepted"),
        ("0,image,0,0.5,1\n", "iterations 0.5 is not accepted"),
        ("0,image,0,5,0\n", "num_gpus 0 is not accepted"),
        ("0,image,x,5,1\n", "arrival 'x' is not a number"),
        ("0,,0,5,1\n", "model is empty"),
        ("\n", "no jobs"),
    ],
)
def test_traces_that_cannot_be_are_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=told):
        read_trace(path, "synergy")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tput": [[1.0]]}, r"tput has shape \(1, 1\)"),
        ({"tput": (-np.ones((9, 5))).tolist()}, "tput: speed: -1.0 at row 0, column 0"),
        ({"tput": "none"}, "tput must be a matrix of numbers"),
        ({"iter_time": 0}, "iter_time 0 must be seconds above 0"),
        ({"iter_time": None}, "iter_time None must be seconds above 0"),
    ],
)
def test_profiles_that_cannot_be_are_refused(tmp_path: Path, change: dict, told: str) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({"models": {"image_1": FILE["models"]["image_1"] | change}}))
    with pytest.raises(ValueError, match=told):
        read_profiles(path)
    path.write_text('{"models": {"image": {}}}')
    with pytest.raises(ValueError, match="'image' is no profile named like"):
        read_profiles(path)
    assert not is_profiles(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="has no 'models'"):
        read_profiles(path)


def test_a_simulation_that_cannot_be_is_refused(profiles: InputProfiles, tmp_path: Path) -> None:
    work = jobs(("image", 0, 1, "image", 3000.0))
    with pytest.raises(ValueError, match="cpus: node v100-000 states none"):
        InputBoundWorld(work, profiles, server(cpus=0.0))
    with pytest.raises(ValueError, match="trace: job x: model 'speech' has no profile; there are image, text"):
        InputBoundWorld(jobs(("x", 0, 1, "speech", 1.0)), profiles, server())
    with pytest.raises(ValueError, match="memory_gib: a share of 1 per GPU is outside what was measured"):
        InputBoundWorld(work, profiles, server(memory_gib=8.0))
    with pytest.raises(ValueError, match="split_penalty: 0"):
        InputBoundWorld(work, profiles, server(), split_penalty=0)
    file = tmp_path / "profiles.json"
    nodes = SimulatedCluster({WHOLE: server()})
    with pytest.raises(ValueError, match="sia chooses sizes"):
        simulation(work, nodes, "sia", {}, source_of(False, file, nodes), Conditions())


# --- derived traces ---------------------------------------------------------------------------------------


def test_durations_are_those_of_the_paper() -> None:
    minutes = derived(Derived(20_000, 9.0)).duration_s / 60
    assert minutes.mean() == pytest.approx(1006, rel=0.03)
    assert np.median(minutes) == pytest.approx(273.8, rel=0.05)
    assert ((minutes > 10**1.5) & (minutes <= 1000)).mean() == pytest.approx(0.8, abs=0.01)
    assert [limit for limit, _ in DURATIONS] == [(1.5, 3.0), (3.0, 4.0)]


def test_splits_arrivals_and_sizes_are_as_asked() -> None:
    work = derived(Derived(8000, 6.0, (20, 70, 10), PHILLY_GPUS), seed=3)
    assert work.submit_s[-1] / 3600 == pytest.approx(8000 / 6, rel=0.05)
    names = np.array(work.applications)
    assert np.isin(names, ["gnmt", "lstm", "transformer"]).mean() == pytest.approx(0.7, abs=0.02)
    assert np.isin(names, ["m5", "deepspeech"]).mean() == pytest.approx(0.1, abs=0.02)
    assert (work.gpus == 1).mean() == pytest.approx(76_600 / 82_099, abs=0.01)
    assert set(work.gpus.tolist()) <= {1, 2, 4, 8, 16}
    static = derived(Derived(50, None))
    assert not static.submit_s.any()


def test_a_seed_draws_the_same_jobs_at_any_rate() -> None:
    slow, fast = derived(Derived(100, 4.0), 5), derived(Derived(100, 8.0), 5)
    assert slow.duration_s.tolist() == fast.duration_s.tolist()
    assert slow.applications == fast.applications
    assert slow.submit_s == pytest.approx(2 * fast.submit_s)
    assert derived(Derived(100, 4.0), 6).duration_s.tolist() != slow.duration_s.tolist()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"jobs": 0}, "jobs: 0 must be at least 1"),
        ({"jobs_per_hour": 0.0}, "jobs_per_hour: 0.0 must be more than 0"),
        ({"split": (1, 2)}, "split: .* is not accepted"),
        ({"split": (0, 0, 0)}, "split: .* is not accepted"),
        ({"split": (-1, 2, 3)}, "split: .* is not accepted"),
        ({"gpus": {0: 1.0}}, "gpus: .* is not accepted"),
        ({"gpus": {}}, "gpus: .* is not accepted"),
    ],
)
def test_what_cannot_be_drawn_is_refused(asked: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Derived(**({"jobs": 10, "jobs_per_hour": 1.0} | asked))


def test_options_say_what_is_drawn() -> None:
    assert asked_by(None, "single", False, 5, 1.0) is None
    philly = asked_by("20,70,10", "philly", False, 5, 1.0)
    assert philly is not None
    assert philly.gpus == PHILLY_GPUS
    own = asked_by("1,0,0", "1:3,4:1", True, 5, 1.0)
    assert own is not None
    assert (own.gpus, own.jobs_per_hour) == ({1: 3.0, 4: 1.0}, None)
    assert own.shown == "derived 5 at once, split 1,0,0, 1 to 4 GPUs"
    for split, sizes, told in (
        ("a", "single", "split: 'a' is not accepted"),
        ("1,1,1", "large", "sizes: 'large' is not accepted"),
        (None, "philly", "split: is not given"),
    ):
        with pytest.raises(ValueError, match=told):
            asked_by(split, sizes, False, 5, 1.0)


def test_a_sweep_draws_them_too(tmp_path: Path) -> None:
    file, sweep = tmp_path / "profiles.json", tmp_path / "sweep.yaml"
    sweep.write_text(
        "policies: [{name: fifo, options: {provisioning: tune}}]\n"
        "traces: [{jobs: 20, split: '20,70,10', sizes: philly, at_once: true}]\n"
        f"profiles: {file}\n"
    )
    (cell,) = cells(read_sweep(sweep), tmp_path)
    assert cell.trace_shown == "derived 20 at once, split 20,70,10, 1 to 16 GPUs"
    sweep.write_text("policies: [fifo]\ntraces: [{split: '1,2'}]\n")
    with pytest.raises(ValueError, match="split: "):
        read_sweep(sweep)
