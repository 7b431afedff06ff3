"""A job file says by few fields how its program works with the cluster, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.doors import Door, Processes
from coadapt.core.job import JobSpec
from coadapt.core.training_config import Adaptivity
from pydantic import ValidationError


def job(**fields: Any) -> JobSpec:
    return JobSpec(name="a", **fields)


@pytest.mark.parametrize(
    ("fields", "door", "gpus", "least", "most", "preemptible"),
    [
        ({"script": "t.py"}, Door.NATIVE, None, 1, 64, True),
        ({"script": "t.py", "elastic": False}, Door.PLAIN, 1, 1, 64, False),
        ({"script": "t.py", "elastic": False, "resources": {"gpus": 4}}, Door.PLAIN, 4, 1, 64, False),
        ({"command": ["bash", "run.sh"]}, Door.PLAIN, 1, 1, 64, False),
        ({"command": ["bash", "run.sh"], "restartable": True}, Door.PLAIN, 1, 1, 64, True),
        ({"command": ["torchrun", "t.py"], "sizes": [2, 8, 4]}, Door.RESTARTING, None, 2, 8, True),
        ({"script": "t.py", "sizes": {"a100": [1], "t4": [2, 4]}}, Door.RESTARTING, None, 1, 4, True),
    ],
)
def test_what_follows_from_the_door_is_filled_in_and_stays_so_when_stored(
    fields: dict, door: Door, gpus: int | None, least: int, most: int, preemptible: bool
) -> None:
    spec = job(**fields)
    assert spec.door is door
    resources = spec.resources
    assert (resources.gpus, resources.min_gpus, resources.max_gpus) == (gpus, least, most)
    assert (spec.preemptible, spec.profile) == (preemptible, door is Door.NATIVE)
    fixed = {Door.PLAIN: Adaptivity.RIGID, Door.RESTARTING: Adaptivity.STRONG_SCALING}
    assert spec.training.adaptivity is fixed.get(door, Adaptivity.ADAPTIVE)
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "script: give either script, a Python file, or command"),
        ({"script": "t.py", "command": ["x"]}, "script: give either script"),
        ({"command": ["x"], "args": ["y"]}, "args: they are of a script"),
        ({"command": ["x"], "elastic": True}, "command: an elastic command names its sizes"),
        ({"script": "t.py", "elastic": False, "sizes": [1]}, "sizes: a job with elastic: false has one size"),
        ({"script": "t.py", "elastic": False, "profile": True}, "profile: true needs coadapt.prepare"),
        ({"script": "t.py", "elastic": False, "preemptible": True}, "moved only if it says restartable: true"),
        ({"script": "t.py", "elastic": False, "resources": {"max_gpus": 4}}, "resources.max_gpus: only"),
        ({"script": "t.py", "elastic": False, "training": {"seed": 7}}, "training.seed: 7 needs coadapt.prepare"),
        ({"script": "t.py", "sizes": [1], "training": {"count": "passes"}}, "training.count: 'passes' needs"),
        (
            {"command": ["x"], "training": {"target": {"metric": "loss", "at_most": 1}}},
            "training.target: it needs coadapt.prepare, which a plain job does not call",
        ),
        ({"command": ["", "x"]}, "command: its first word is ''; the program is expected there"),
        ({"command": ["x"], "env": {"PET_NNODES": "2"}}, "env.PET_NNODES: set by coadapt"),
        ({"script": "t.py", "sizes": [1], "restartable": True}, "restartable: a job with sizes"),
        ({"script": "t.py", "sizes": [1, 2], "resources": {"max_gpus": 4}}, "a job with sizes says by them"),
        ({"script": "t.py", "sizes": {"t4": [1]}, "resources": {"gpu_types": ["a100"]}}, "resources.gpu_types: "),
        ({"script": "t.py", "sizes": [2], "resources": {"gpus_per_replica": 2}}, "resources.gpus_per_replica: "),
        ({"script": "t.py", "sizes": []}, "at least 1 item"),
        ({"script": "t.py", "sizes": {}}, "sizes: {} names no GPU type; give for example"),
        ({"script": "t.py", "sizes": [0]}, "greater than or equal to 1"),
        ({"script": "t.py", "processes": "node"}, "processes: only a job with elastic: false, or with sizes"),
        ({"script": "t.py", "emulation": {"pause": True}}, "emulation.pause: true is for commands"),
        ({"script": "t.py", "grace_s": 5}, "grace_s: only a job with elastic: false, or with sizes"),
        ({"script": "t.py", "restartable": True}, "restartable: only a job with elastic: false"),
        ({"script": "t.py", "progress": {"file": "x"}}, "progress: only a job with elastic: false"),
        ({"command": ["x"], "progress": {"pattern": "("}}, "pattern: '(' is no regular expression"),
        ({"command": ["x"], "progress": {"pattern": "step"}}, "pattern: 'step' has no named group"),
    ],
)
def test_what_a_door_has_no_use_for_is_refused_in_one_sentence(fields: dict, why: str) -> None:
    with pytest.raises(ValidationError) as refused:
        job(**fields)
    assert why in refused.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("fields", "processes"),
    [
        ({"script": "t.py", "elastic": False}, Processes.GPU),
        ({"command": ["python3", "t.py"]}, Processes.GPU),
        ({"command": ["/opt/bin/python3.11", "-u", "t.py"]}, Processes.GPU),
        ({"command": ["torchrun", "t.py"]}, Processes.NODE),
        ({"command": ["python", "-m", "torch.distributed.run", "t.py"]}, Processes.NODE),
        ({"command": ["accelerate", "launch", "t.py"]}, Processes.NODE),
        ({"command": ["bash", "run.sh"]}, Processes.NODE),
        ({"command": ["bash", "run.sh"], "processes": "gpu"}, Processes.GPU),
        ({"command": ["python", "-u", "-m", "torch.distributed.run", "t.py"]}, Processes.NODE),
        ({"command": ["python", "-W", "ignore", "-um", "accelerate.commands.launch", "t.py"]}, Processes.NODE),
        ({"command": ["python", "/opt/bin/torchrun", "t.py"]}, Processes.NODE),
        ({"command": ["python", "t.py", "torchrun"]}, Processes.GPU),
        ({"command": ["python"]}, Processes.GPU),
    ],
)
def test_a_python_program_starts_once_per_gpu_and_any_other_once_per_node(
    fields: dict, processes: Processes
) -> None:
    assert job(**fields).processes_on_node is processes


def test_sizes_hold_for_every_type_or_for_each_its_own() -> None:
    anywhere, own = job(script="t.py", sizes=[1, 2]), job(script="t.py", sizes={"a100": [1], "t4": [2, 4]})
    assert [anywhere.allows("x", n) for n in (1, 2, 3)] == [True, True, False]
    assert [own.allows("t4", n) for n in (1, 2, 3, 4)] == [False, True, False, True]
    assert not own.allows("v100", 1)
    assert job(script="t.py").allows("x", 7)
    assert (anywhere.asked_gpus, own.asked_gpus) == (1, 1)
