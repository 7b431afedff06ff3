"""What an operator may set of UniSched: its ablations, its predecessor CHRONUS, and what goes beyond the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .grid import EXACT

# CHRONUS (SoCC'21) as the options of its successor: its estimator, and its selector.
_ESTIMATOR: Mapping[str, Any] = {"iter_estimator": "max_iter", "sr_aware": False}
_SELECTOR: Mapping[str, Any] = {
    "profiler": "static", "selection": "sequential", "placement": "consolidation", "returned": False,
}  # fmt: skip
_OWN_ESTIMATOR: Mapping[str, Any] = {"iter_estimator": "on", "sr_aware": True}
_OWN_SELECTOR: Mapping[str, Any] = {
    "profiler": "unified", "selection": "joint", "placement": "joint", "returned": True,
}  # fmt: skip
_AS_PUBLISHED: Mapping[str, Any] = {"published": True, "profile": "published"}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "unisched": {},
    "chronus": {**_AS_PUBLISHED, **_ESTIMATOR, **_SELECTOR},
    "chronus+estimator": {**_AS_PUBLISHED, **_OWN_ESTIMATOR, **_SELECTOR},
    "chronus+selector": {**_AS_PUBLISHED, **_ESTIMATOR, **_OWN_SELECTOR},
}
BEYOND = ("urgent_s", "least_speed", "upper_end")  # what the published form knows nothing of


class UniSchedOptions(BaseModel):
    """What an operator may set.

    variant: CHRONUS, alone or with one half of its successor. It sets other options, which then are refused.
    published: as the paper has it: one program for all, nothing starts between two leases.
    best_effort_lease_s, deadline_lease_s: lengths of leases; the second is a multiple of the first.
    urgent_s: beyond the paper: a deadline is planned for so much before its moment.
    upper_end: beyond the paper: a deadline is planned with the upper end of the band of a job's length.
    returned: what is left of a cell goes to others; placement: joint, or consolidation on fewest nodes.
    selection: one program for all jobs, or one for deadlines and then one for the others.
    sr_aware: suspensions are counted in. objective: reward, or any feasible plan.
    iter_estimator: whether jobs that a metric ends are planned with that, or with all of their training.
    profile: jobs are measured as they train, or for a lease that counts for nothing. None: as `published` says.
    profiler: they are measured in the same program, or on measuring_nodes nodes that are kept for that.
    time_limit_s: of the program.
    least_speed: beyond the paper: a job lies apart where it is that fast, over its speed together.
    type_blind: as for policies with queues.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: Literal["unisched", "chronus", "chronus+estimator", "chronus+selector"] = "unisched"
    published: bool = False
    best_effort_lease_s: float = Field(default=300.0, gt=0)
    deadline_lease_s: float = Field(default=600.0, gt=0)
    urgent_s: float = Field(default=120.0, ge=0)
    upper_end: bool = True
    returned: bool = True
    placement: Literal["joint", "consolidation"] = "joint"
    selection: Literal["joint", "sequential"] = "joint"
    sr_aware: bool = True
    objective: Literal["reward", "feasible"] = "reward"
    iter_estimator: Literal["on", "max_iter"] = "on"
    profile: Literal["trained", "published"] | None = None
    profiler: Literal["unified", "static"] = "unified"
    measuring_nodes: int = Field(default=2, ge=1)
    most_leases: int = Field(default=288, ge=1)
    gap: float = Field(default=1e-5, ge=0)
    time_limit_s: float = Field(default=0.5, gt=0)
    least_speed: float = Field(default=0.9, gt=0, le=1)
    type_blind: bool = False

    @model_validator(mode="before")
    @classmethod
    def _of_variant(cls, given: Any) -> Any:
        name = given.get("variant", "unisched") if isinstance(given, Mapping) else None
        sets = VARIANTS.get(name, {}) if isinstance(name, str) else {}
        for option, value in sets.items():
            if option in given:
                raise ValueError(f"{option}: goes without variant={name}, which sets it to {str(value).lower()}")
        return {**given, **sets} if sets else given

    @model_validator(mode="after")
    def _go_together(self) -> UniSchedOptions:
        times = self.deadline_lease_s / self.best_effort_lease_s
        if times < 1 or abs(times - round(times)) > EXACT:
            raise ValueError(
                f"deadline_lease_s: {self.deadline_lease_s:g} is no multiple of best_effort_lease_s "
                f"{self.best_effort_lease_s:g}; a multiple is accepted, so that leases end together"
            )
        if "measuring_nodes" in self.model_fields_set and self.profiler != "static":
            raise ValueError("measuring_nodes: goes with profiler=static, as else no nodes are kept for measuring")
        if self.selection == "sequential" and not self.published:
            raise ValueError("selection: sequential goes with published, as else the program has deadlines only")
        beyond = [name for name in BEYOND if name in self.model_fields_set] if self.published else []
        if beyond:
            raise ValueError(f"{beyond[0]}: goes without published, which plans for the deadline itself")
        return self

    @property
    def counts_for_nothing(self) -> bool:
        """Whether what a job trains while it is measured is lost."""
        return self.published if self.profile is None else self.profile == "published"
