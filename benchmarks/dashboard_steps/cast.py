"""The jobs of the played cluster, and how fast each trains on each GPU type. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from coadapt.core.job import JobSpec
from coadapt.core.reports import JobInfo, Progress, Report, StepRow
from coadapt.estimators.goodput import BatchChoice, best_batch
from coadapt.estimators.measurements import Measurements

NODES = "1x a100:4, 1x rtx:4, 2x t4:4"
SPEED = {"a100": 1.0, "rtx": 0.52, "t4": 0.27}  # of one GPU, over that of an a100
SIZES = (16, 32, 64, 128, 256)
EPOCHS = 30
TEAMS = {
    "teams": {
        "vision": {
            "users": ["ann"],
            "share": 2,
            "guarantee": {"a100": 2, "t4": 4},
            "cap": {"a100": 4, "t4": 6},
            "limits": {"value_units_a_month": 60},
        },
        "language": {
            "users": ["bob"],
            "guarantee": {"a100": 2, "rtx": 1},
            "cap": {"rtx": 3},
            "limits": {"value_units_a_month": 25},
        },
        "research": {"users": ["eve"], "default": True, "guarantee": {"rtx": 2}, "cap": {"a100": 1}},
    },
    "prices": {"a100": 3.0, "rtx": 1.5, "t4": 0.6},
}
TEAM_OF = {user: name for name, team in TEAMS["teams"].items() for user in team["users"]}
BEFORE_S = 3 * 3600.0  # so long the cluster was in use when it is shown


@dataclass(frozen=True)
class Role:
    """A job of the story.

    comes_s: when it is submitted, of the time before. speed: samples/s of one a100. noise: gradient noise scale at
    its end. work_s: seconds that one a100 needs for it. most: GPUs. becomes: "" or what happens to it.
    """

    name: str
    owner: str
    comes_s: float
    speed: float
    noise: float
    work_s: float
    most: int = 8
    becomes: str = ""
    rigid: bool = False

    def spec(self) -> JobSpec:
        training = {"adaptivity": "rigid"} if self.rigid else {"max_batch_size": 4096}
        return JobSpec.model_validate(
            {
                "name": self.name,
                "team": TEAM_OF.get(self.owner),
                "script": "train.py",
                "args": ["--data", f"/data/{self.name}"],
                "resources": {"gpus": self.most} if self.rigid else {"max_gpus": self.most},
                "training": {**training, "target": {"metric": "accuracy", "at_least": 0.97}},
                "preemptible": not self.rigid,
            }
        )


CAST = (
    Role("resnet-imagenet", "ann", 0.0, 900.0, 30_000.0, 30 * 3600.0),
    Role("bert-finetune", "bob", 240.0, 220.0, 7200.0, 0.9 * 3600.0, 4),
    Role("sweep-lr-3", "eve", 900.0, 500.0, 14_400.0, 2.5 * 3600.0, 4),
    Role("speech-ctc", "ann", 2400.0, 350.0, 20_000.0, 9.0 * 3600.0),
    Role("gan-faces", "eve", 3600.0, 180.0, 5600.0, 0.9 * 3600.0, 2, "fails"),
    Role("vit-small", "bob", 5200.0, 640.0, 33_600.0, 10.0 * 3600.0),
    Role("char-lm", "ann", 6400.0, 800.0, 24_000.0, 5.0 * 3600.0, 4),
    Role("detector", "eve", 7300.0, 300.0, 12_000.0, 2.0 * 3600.0, 4, "paused"),
    Role("segmentation", "bob", 9000.0, 260.0, 17_600.0, 8.0 * 3600.0),
    Role("sweep-lr-4", "eve", 9900.0, 500.0, 14_400.0, 3.0 * 3600.0, 4),
    Role("llm-pretrain", "bob", 10_560.0, 90.0, 40_000.0, 3 * 3600.0, 8, rigid=True),
    Role("tabular", "ann", 10_600.0, 1500.0, 3200.0, 1.5 * 3600.0, 2),
    Role("diffusion", "eve", 10_640.0, 120.0, 24_000.0, 2 * 3600.0, 8, rigid=True),
)

# What a job is that somebody submits while the cluster is shown.
NEWCOMER = Role("newcomer", "", 0.0, 700.0, 16_000.0, 3 * 3600.0, 4)


@dataclass
class Played:
    """What a job of the story has done so far."""

    role: Role
    dice: np.random.Generator
    progress: float = 0.0  # samples at the initial batch size
    steps: int = 0
    samples: int = 0
    seen_s: float | None = None  # when it last reported

    @property
    def initial(self) -> int:
        return 64

    @property
    def fraction(self) -> float:
        return min(self.progress / (self.role.work_s * self.role.speed), 1.0)

    @property
    def noise(self) -> float:
        """Return the gradient noise scale of now: it grows as a job converges."""
        return self.role.noise * (0.15 + 0.85 * self.fraction**0.7) * float(self.dice.normal(1.0, 0.01))

    def measured(self, gpu_types: Sequence[str]) -> Measurements:
        """Return what profile runs on these types have shown."""
        info = JobInfo(
            f"net-{self.role.name}", self.initial, 25_000_000, 1_281_167, adam_type=False, whole_batches=False
        )
        found = Measurements().with_info(info)
        for gpu_type in gpu_types:
            found = found.with_rows(gpu_type, [self._row(gpu_type, 1, 1, size) for size in SIZES])
        return found

    def batch(
        self, known: Measurements, spec: JobSpec, gpu_type: str, nodes: int, gpus: int
    ) -> BatchChoice | None:
        """Return the batch that the models of now choose."""
        model = known.job_model(spec.training, dict.fromkeys(known.profiles, 1))
        return None if model is None else best_batch(model, gpu_type, nodes, gpus)

    def report(
        self, known: Measurements, spec: JobSpec, gpu_type: str, nodes: int, gpus: int, now: float
    ) -> Report | None:
        """Return what it reports after it has trained since the last time."""
        choice = self.batch(known, spec, gpu_type, nodes, gpus)
        if choice is None:
            return None
        trained_s = 0.0 if self.seen_s is None else now - self.seen_s
        self.seen_s = now
        row = self._row(gpu_type, nodes, gpus, choice.local_bsz)
        row = replace(
            row, accumulation=choice.accumulation, step_time_s=row.step_time_s * (choice.accumulation + 1)
        )
        steps = int(trained_s / row.step_time_s)
        gain = choice.batch_size / self.initial * choice.efficiency
        self.steps += steps
        self.samples += steps * choice.batch_size
        self.progress += steps * gain * self.initial
        noise, done = self.noise, self.fraction
        wobble = float(self.dice.normal(0.0, 0.012))
        return Report(
            1,
            gpu_type,
            nodes,
            gpus,
            (replace(row, count=max(steps, 1)),),
            1.0,
            noise,
            choice.batch_size,
            choice.local_bsz,
            choice.accumulation,
            0.1 * math.sqrt(choice.batch_size / self.initial),
            gain,
            Progress(int(done * EPOCHS) + 1, EPOCHS, done, self.steps, self.samples, self.progress),
            {
                "loss": 0.35 + 2.2 * math.exp(-5.0 * done) + 2 * abs(wobble),
                "accuracy": 0.98 - 0.8 * math.exp(-4.5 * done) + wobble,
            },
        )

    def _row(self, gpu_type: str, nodes: int, gpus: int, size: int) -> StepRow:
        pass_s = (60 + 0.5 * size) / (self.role.speed * SPEED.get(gpu_type, 0.2))
        sync_s = 0.0 if gpus == 1 else 0.01 * pass_s + 0.002 * math.log2(gpus) + 0.006 * (nodes > 1)
        return StepRow(nodes, gpus, size, 0, pass_s + sync_s, sync_s, 20)
