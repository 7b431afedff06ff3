"""A study of 48 trials on digits by `coadapt tune`, beside Ray Tune with a process for each trial.

    python -m benchmarks.tuning_live [--trials 48] [--seeds 1] [--only study,unfused,ray,deadline,kills,long]

All run on the same two cores, without pacing. Ray Tune trains each trial at the whole width. So does a study
that neither fuses nor shrinks. The study trains groups of models of an eighth of the width, and promotes the
best three.

* study_s, unfused_s, ray_tune_s: from the start of the command until the best values are known, medians.
* makespan_over_ray_tune, over_unfused: how many times as long these take as the study.
* target_quality_diff: accuracy of the study's target less that of Ray Tune's best trial, mean over seeds.
* deadline/quality_gain: accuracy of the study's best at a deadline, less that of a study by ASHA that neither
  fuses nor shrinks, at the same deadline.
* overhead_profiling, overhead_defusion: GPU-seconds of measuring, and of starts of groups that go on from others'
  checkpoints, over all GPU-seconds of a study by ASHA that takes ten minutes or more (`long_s`).
* jobs_lost, same_values: a study whose actor, scheduler and a worker are killed: trials that failed, and 1 if it
  found what an undisturbed one found.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from coadapt.client.client import Client
from coadapt.client.jobfile import from_mapping, locate
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster

from .arguments import at_least
from .harness import finish, table

SCRIPT = Path(__file__).parent / "scripts" / "tuned_digits.py"
SPACE: dict[str, Any] = {
    "lr": {"log": [0.001, 0.5]},
    "momentum": {"uniform": [0.5, 0.99], "step": 0.01},
    "gamma": {"uniform": [0.1, 0.9], "step": 0.01},
}
PARTS = ("study", "unfused", "ray", "deadline", "kills", "long")
CLUSTER, ROUND_S, LOOK_S, CAP_S = "1x t4:2", 5.0, 0.5, 1800.0
JOB = {
    "name": "digits",
    "script": SCRIPT.name,
    "resources": {"max_gpus": 2},
    "training": {"report_interval_s": 5},
    "emulation": {"profile": "cifar10", "time_scale": 100_000},
}


def study_of(trials: int, seed: int, **more: Any) -> dict[str, Any]:
    """Return the fields of a study."""
    fields = {"space": SPACE, "metric": "accuracy", "mode": "max", "trials": trials, "epochs": 20, "seed": seed}
    return {"name": "digits", "job": dict(JOB), **fields, "algorithm": "random", "shrink": 8, **more}


def run_study(client: Client, folder: Path, study: Mapping[str, Any], disturb: Any = None) -> dict[str, Any]:
    """Run a study to its end; return its view, with `took_s`."""
    began_s = time.monotonic()
    id = client.begin_study(study, locate(from_mapping(study["job"]), folder))
    assert id is not None
    while True:
        view = client.study(id)
        took_s = time.monotonic() - began_s
        if view["status"] in ("done", "failed", "cancelled"):
            return {**view, "took_s": took_s}
        if took_s > CAP_S:
            raise SystemExit(f"tuning_live: a study is not over after {CAP_S:.0f} s: {view['status']}")
        if disturb is not None:
            disturb(view)
        time.sleep(LOOK_S)


def overheads(client: Client, folder: Path, trials: int, epochs: int) -> dict[str, float]:
    """Run a long study by ASHA; return how long it took, and which parts of its GPU-seconds were no training."""
    before, known = _used_s(client), {row["id"] for row in client.list()}
    by = {"algorithm": {"asha": {"grace": epochs // 27, "reduction": 3}}, "epochs": epochs}
    job = {**JOB, "args": [str(epochs)]}
    view = run_study(client, folder, study_of(trials, 0, **by, job=job))
    assert view["status"] == "done", view
    used = {key: seconds - before[key] for key, seconds in _used_s(client).items()}
    total_s, again_s = sum(used.values()), 0.0
    for row in client.list():
        if row["id"] in known:
            continue
        events = client.events(row["id"], last=1000, kinds=("trials", "running", "placed"))
        told = [event["epoch"] for event in events if "epoch" in event]
        starts = [event["time_s"] for event in events if event["kind"] == "running"]
        placed = [event["time_s"] for event in events if event["kind"] == "placed"]
        if told and starts and placed and min(told) > 1:
            again_s += starts[0] - placed[0]
    return {
        "long_s": view["took_s"],
        "overhead_profiling": used["profiled"] / total_s,
        "overhead_defusion": again_s / total_s,
    }


def _used_s(client: Client) -> dict[str, float]:
    """Return the GPU-seconds of the cluster so far: of training, of measuring, and of starts."""
    rows = client.usage()
    return {
        "trained": 3600 * sum(row["trained_h"] for row in rows),
        "profiled": 3600 * sum(row["profiled_h"] for row in rows),
        "started": 3600 * sum(row["started_h"] for row in rows),
    }


def ray_tune(trials: int, seed: int, deadline_s: float | None = None) -> tuple[float, float]:
    """Return how long Ray Tune takes, and the accuracy of its best trial at its end."""
    import ray
    from ray import tune

    def trial(config: dict[str, Any]) -> None:
        import torch

        torch.set_num_threads(1)
        from benchmarks.scripts import tuned_digits as script

        model, optimizer, loader, schedule, test = script.parts(**config)
        told = lambda accuracy: tune.report({"accuracy": accuracy})  # noqa: E731
        script.train(model, optimizer, loader, schedule, test, range(script.EPOCHS), told)

    space = {
        "lr": tune.loguniform(0.001, 0.5),
        "momentum": tune.quniform(0.5, 0.99, 0.01),
        "gamma": tune.quniform(0.1, 0.9, 0.01),
    }
    began_s = time.monotonic()
    root = str(Path(__file__).parents[1])
    ray.init(num_cpus=2, runtime_env={"env_vars": {"PYTHONPATH": f"{root}/.types:{root}"}}, log_to_driver=False)
    try:
        tuner = tune.Tuner(
            tune.with_resources(trial, {"cpu": 1}),
            param_space=space,
            tune_config=tune.TuneConfig(
                metric="accuracy", mode="max", num_samples=trials, time_budget_s=deadline_s
            ),
            run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
        )
        import random

        import numpy as np

        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 (by which Ray Tune draws)
        best = tuner.fit().get_best_result()
        assert best.metrics is not None
        return time.monotonic() - began_s, float(best.metrics["accuracy"])
    finally:
        ray.shutdown()


class Kills:
    """Kills the study's actor, the scheduler and a worker, one after the other, once trials have reported."""

    def __init__(self, client: Client) -> None:
        self._client, self._left = client, ["study", "SchedulerService", "worker"]
        self._next_s = 0.0

    def __call__(self, view: Mapping[str, Any]) -> None:
        if view["best"] is None or not self._left or time.monotonic() < self._next_s:
            return
        what = self._left.pop(0)
        self._next_s = time.monotonic() + 5.0
        for process in psutil.process_iter(["cmdline"]):
            words = " ".join(process.info["cmdline"] or [])
            actor = "ray::StudyActor" if what == "study" else f"ray::{what}"
            training = what == "worker" and "tuned_digits.py" in words and "ray::" not in words
            if actor in words or training:
                process.kill()
                print(f"killed {what}: {words[:60]}", flush=True)
                return
        print(f"no process of {what} was found", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=at_least(4), default=48)
    parser.add_argument("--seeds", type=at_least(1), default=1)
    parser.add_argument("--deadline", type=at_least(10), default=60, help="seconds")
    parser.add_argument("--long", type=at_least(27), default=800, help="epochs of the long study")
    parser.add_argument("--only", default=",".join(PARTS))
    asked = parser.parse_args()
    wanted = [one for one in asked.only.split(",") if one in PARTS]
    folder, figures = Path(tempfile.mkdtemp(prefix="tuning-live-")), dict[str, float | int | None]()
    source = folder / "job"  # apart from the state folder, which must not be sent along
    source.mkdir()
    shutil.copy(SCRIPT, source / SCRIPT.name)
    views: dict[str, list[dict[str, Any]]] = {}
    tuned: list[tuple[float, float]] = []
    if any(one != "ray" for one in wanted):
        settings = Settings(state_dir=str(folder / "state"), round_interval_s=ROUND_S, restart_cost_s=1.0)
        with local_cluster.cluster(CLUSTER, settings=settings) as client:
            for seed in range(asked.seeds):
                if "study" in wanted:
                    views.setdefault("study", []).append(run_study(client, source, study_of(asked.trials, seed)))
                if "unfused" in wanted:
                    alone = study_of(asked.trials, seed, fuse=False, shrink=1)
                    views.setdefault("unfused", []).append(run_study(client, source, alone))
            if "deadline" in wanted:
                for name, more in (("fused", {}), ("apart", {"fuse": False, "shrink": 1})):
                    by = {"algorithm": {"asha": {"grace": 2, "reduction": 3}}, "deadline": f"{asked.deadline}s"}
                    study = study_of(asked.trials * 4, 0, **by, **more)
                    views.setdefault(f"deadline {name}", []).append(run_study(client, source, study))
            if "kills" in wanted:
                views["kills"] = [run_study(client, source, study_of(asked.trials, 0), Kills(client))]
            if "long" in wanted:
                figures |= overheads(client, source, 4 * asked.trials, asked.long)
    if "ray" in wanted:
        tuned = [ray_tune(asked.trials, seed) for seed in range(asked.seeds)]
    rows = [
        [name, len(found), statistics.median(one["took_s"] for one in found), _quality(found), _gpu_s(found)]
        for name, found in views.items()
    ]
    if tuned:
        rows.append(
            ["Ray Tune", len(tuned), statistics.median(s for s, _ in tuned), _mean(q for _, q in tuned), ""]
        )
    table(f"{asked.trials} trials on two cores", ["", "runs", "seconds", "accuracy", "GPU-seconds"], rows)
    figures |= _figures(views, tuned)
    shutil.rmtree(folder, ignore_errors=True)
    finish("tuning_live", figures)


def _figures(
    views: Mapping[str, list[dict[str, Any]]], tuned: list[tuple[float, float]]
) -> dict[str, float | int | None]:
    found: dict[str, float | int | None] = {}
    took = {name: statistics.median(one["took_s"] for one in own) for name, own in views.items()}
    found |= {f"{name.replace(' ', '_')}_s": seconds for name, seconds in took.items()}
    if tuned:
        found["ray_tune_s"] = statistics.median(seconds for seconds, _ in tuned)
    if "study" in took and "unfused" in took:
        found["over_unfused"] = took["unfused"] / took["study"]
    if "study" in took and tuned:
        found["makespan_over_ray_tune"] = found["ray_tune_s"] / took["study"]  # type: ignore[operator]
        found["target_quality_diff"] = _quality(views["study"]) - _mean(quality for _, quality in tuned)
    if "deadline fused" in views:
        gain = _quality(views["deadline fused"]) - _quality(views["deadline apart"])
        found["deadline/quality_gain"] = gain
    if "kills" in views:
        killed = views["kills"][0]
        found["jobs_lost"] = sum(row["state"] == "failed" for row in killed["trials"])
        if "study" in views:
            found["same_values"] = int(killed["best_values"] == views["study"][0]["best_values"])
    return found


def _quality(views: list[dict[str, Any]]) -> float:
    return _mean(view["best"] if view["best"] is not None else 0.0 for view in views)


def _gpu_s(views: list[dict[str, Any]]) -> float:
    return _mean(view["gpu_s"] for view in views)


def _mean(values: Any) -> float:
    found = list(values)
    return sum(found) / len(found)


if __name__ == "__main__":
    main()
