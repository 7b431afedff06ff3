"""What a user relies on: the ways of Synergy's published simulator can be had one at a time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from coadapt.simulator.compat.synergy import ROUND_S, WAYS, Ways, replayed
from coadapt.simulator.traces.input_profiles import CPUS, InputProfiles, read_profiles
from coadapt.simulator.traces.workload import TraceJob, Workload


@pytest.fixture
def profiles(tmp_path: Path) -> InputProfiles:
    path = tmp_path / "profiles.json"
    speeds = {"image_1": np.minimum(CPUS, 9) / 3, "speech_1": np.minimum(CPUS, 12) / 3, "text_1": np.ones(9)}
    models = {
        name: {"tput": np.repeat(speed[:, None], 5, axis=1).tolist(), "iter_time": 7.0}
        for name, speed in speeds.items()
    }
    path.write_text(json.dumps({"models": models}))
    return read_profiles(path)


def work(count: int = 40, seed: int = 0) -> Workload:
    random = np.random.default_rng(seed)
    models = random.choice(["image", "speech", "text"], count)
    steps = random.integers(50, 2000, count)
    return Workload.of(
        TraceJob(id=str(at), submit_s=0.0, gpus=1, application=str(models[at]), steps=int(steps[at]))
        for at in range(count)
    )


def test_jobs_that_end_with_rounds_end_later(profiles: InputProfiles) -> None:
    for mechanism in ("proportional", "tune"):
        exact = replayed(work(), profiles, mechanism, Ways(), servers=1)
        ends = replayed(work(), profiles, mechanism, WAYS["ends_with_rounds"], servers=1)
        assert 0 <= ends - exact < ROUND_S
        assert ends % ROUND_S == 0


def test_dropped_parts_of_iterations_cost_time(profiles: InputProfiles) -> None:
    exact = replayed(work(), profiles, "proportional", Ways(), servers=1)
    whole = replayed(work(), profiles, "proportional", WAYS["whole_iterations"], servers=1)
    # 42 iterations of 7 s of the 42.9 that a round has time for.
    assert exact < whole < exact * 1.06


@pytest.mark.parametrize("way", list(WAYS))
def test_every_way_gains_over_shares_and_runs_all_jobs(profiles: InputProfiles, way: str) -> None:
    proportional = replayed(work(), profiles, "proportional", WAYS[way], servers=1)
    assert replayed(work(), profiles, "tune", WAYS[way], servers=1) < proportional
