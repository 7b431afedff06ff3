"""Live states of many jobs, with the models of `core/pace_profiles.json`, to time answers with."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from coadapt.core.cluster import Node
from coadapt.core.expected import ExpectedSource
from coadapt.core.job import JobSpec
from coadapt.core.placement import NodeShare, Placement
from coadapt.estimators.goodput import BatchLimits, JobModel
from coadapt.estimators.pace import Pace, measured_profiles
from coadapt.estimators.throughput import ThroughputModel
from coadapt.forecasts.questions import Change
from coadapt.forecasts.state import LiveJob, LiveState, PastJob

NOW_S = 1_700_000_000.0
TYPES = ("a100", "rtx", "t4")
BATCHES = {"bert": (12, 384), "cifar10": (128, 4096), "deepspeech2": (20, 640), "yolov3": (8, 512)}
NODES = tuple(
    Node(f"{gpu_type}-{at:03d}", gpu_type, gpus, 8.0 * gpus, 64.0 * gpus)
    for gpu_type, gpus, count in (("a100", 8, 6), ("rtx", 8, 6), ("t4", 4, 8))
    for at in range(count)
)


def model(name: str) -> JobModel:
    """Return the model of a job that is measured on all types."""
    known = [t for t in TYPES if t in measured_profiles()[name]]
    paces = {t: Pace.of(name, t) for t in known}
    first, most = BATCHES[name]
    throughput = {t: ThroughputModel(pace.params, pace.max_local_bsz, 8, 0.05) for t, pace in paces.items()}
    return JobModel(throughput, 2000.0, BatchLimits(first, most), dict.fromkeys(known, 1))


MODELS = {name: model(name) for name in BATCHES}


def spec(name: str, most: int) -> JobSpec:
    """Return a job that may have up to so many GPUs."""
    first, largest = BATCHES[name]
    return JobSpec.model_validate(
        {
            "name": name,
            "script": "train.py",
            "resources": {"max_gpus": most},
            "training": {"initial_batch_size": first, "max_batch_size": largest},
        }
    )


def many(count: int, seed: int) -> LiveState:
    """Return so many jobs, of which those run for which there is room."""
    draw = random.Random(seed)
    free = [[node, node.gpus] for node in NODES]
    jobs = []
    for number in range(count):
        name = draw.choice(sorted(BATCHES))
        seconds = draw.lognormvariate(8.5, 1.0)
        placement = None
        room = next((one for one in free if one[1] > 0), None)
        if room is not None:
            node = room[0]
            room[1] -= 1
            placement = Placement(node.gpu_type, (NodeShare(node.id, 1),))
        speed = 100.0
        jobs.append(
            LiveJob(
                id=f"job-{number}",
                spec=spec(name, draw.choice((1, 4, 16, 64))),
                submitted_s=NOW_S - draw.uniform(0, 36_000) - (0 if placement is None else 36_000),
                owner=f"user-{number % 9}",
                model=MODELS[name],
                placement=placement,
                start_s=40.0,
                move_s=10.0,
                mean_s=seconds,
                low_s=seconds / 1.15,
                high_s=seconds * 1.15,
                source=ExpectedSource.MEASURED_SPEED,
                remaining=seconds * speed,
            )
        )
    return LiveState(NOW_S, 1, 60.0, 0.5, "sia", {}, NODES, tuple(jobs))


def crowd(count: int) -> Sequence[PastJob]:
    """Return jobs of the last week."""
    draw = random.Random(0)
    found = []
    for number in range(count):
        name, seconds = draw.choice(sorted(BATCHES)), draw.lognormvariate(8.0, 1.0)
        found.append(
            PastJob(
                id=f"past-{number}",
                spec=spec(name, 16),
                owner=f"user-{number % 9}",
                script_key="",
                submitted_s=NOW_S - draw.uniform(0, 7 * 86_400),
                served_s=seconds,
                samples=seconds * 100.0,
                model=MODELS[name],
            )
        )
    return sorted(found, key=lambda one: one.submitted_s)


def _another(state: LiveState) -> Change:
    job = state.jobs[0]
    new = LiveJob(**{**job.__dict__, "id": "~new", "placement": None, "submitted_s": state.now_s})
    return Change(submit=(new,))


def _more(state: LiveState) -> Change:
    return Change(nodes=tuple(Node(f"~new-{i}", "a100", 8, 64.0, 512.0) for i in range(4)))


def _fewer(state: LiveState) -> Change:
    return Change(without=(state.nodes[0].id,))


def _otherwise(state: LiveState) -> Change:
    return Change(policy="coadapt")


CHANGES: Sequence[Callable[[LiveState], Change]] = (_another, _more, _fewer, _otherwise)
