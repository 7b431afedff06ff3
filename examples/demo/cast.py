"""The jobs of the demo, and when the next one comes. It is pure, except that it reads job files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from coadapt.client import jobfile
from coadapt.core.job import JobSpec
from coadapt.core.schemas import JobRow

from .phenomena import SCALE_UP

EXAMPLES = Path(__file__).resolve().parent.parent
MEASURED_AT_ONCE = 2  # jobs, each of which is measured on all GPU types at once
MOST_ACTS = 3
CORES_NEEDED = 1.0  # with which GPUs keep the pace of the roles


@dataclass(frozen=True)
class Role:
    """A job of `examples/<example>` on GPUs that are `time_scale` times faster than measured."""

    name: str
    example: str
    time_scale: float

    def spec(self, pace: float = 1.0, act: int = 1) -> JobSpec:
        """Return the job.

        `pace`: a further factor of speed.
        `act`: the number of the act, which the job's name shows from the second on.
        """
        spec = jobfile.load(EXAMPLES / self.example / "job.yaml")
        emulation = spec.emulation.model_copy(update={"time_scale": self.time_scale * pace})
        training = spec.training.model_copy(update={"report_interval_s": 2.0})
        name = self.name if act == 1 else f"{self.name}-again{act}"
        return spec.model_copy(update={"name": name, "emulation": emulation, "training": training})


# The first one has the cluster to itself until it has grown.
ROLES = (
    Role("chars", "char_transformer", 1.6),
    Role("digits-a", "image_classifier", 0.2),
    Role("tune", "finetune", 4),
    Role("fixed", "rigid", 8),
    Role("digits-b", "image_classifier", 0.2),
    Role("digits-c", "image_classifier", 0.2),
)


def pace(cores: float) -> float:
    """Return the factor by which GPUs are faster than the roles say.

    `cores`: cores' worth of work that this machine can carry.
    """
    return min(max(cores / CORES_NEEDED, 0.5), 1.0)


def comes(rows: Sequence[JobRow], missing: Collection[str]) -> tuple[Role, int] | None:
    """Return the role that enters now, and its act; None: none enters. `missing`: phenomena not seen yet.

    All roles play again, in up to `MOST_ACTS` acts, if all jobs have succeeded and something is missing.
    """
    act, entered = divmod(len(rows), len(ROLES))
    if not entered:
        wanted = not rows or (missing and act < MOST_ACTS and all(row["phase"] == "succeeded" for row in rows))
        return (ROLES[0], act + 1) if wanted else None
    first, *others = sorted(rows, key=lambda row: row["submitted_s"])[act * len(ROLES) :]
    grown = first["phase"] == "running" and first["gpus"] > 1 and SCALE_UP not in missing
    if not others and not grown and first["finished_s"] is None:
        return None
    measured = sum(row["phase"] == "profiling" for row in rows)
    return (ROLES[entered], act + 1) if measured < MEASURED_AT_ONCE else None


def finished(rows: Sequence[JobRow], missing: Collection[str]) -> bool:
    """Return whether all roles have entered and their jobs have ended."""
    return bool(rows) and all(row["finished_s"] is not None for row in rows) and comes(rows, missing) is None


def reached(spec: JobSpec, row: JobRow) -> bool:
    """Return whether the job succeeded, at its target metric if it has one."""
    target = spec.training.target
    ended = row["phase"] == "succeeded"
    return ended and (target is None or target.reached(row["metrics"].get(target.metric, float("nan"))))
