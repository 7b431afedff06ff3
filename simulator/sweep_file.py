"""The YAML file of a sweep: policies x clusters x traces x seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..core import safe_yaml
from ..policies.catalogue import make_policy
from ..scheduler.services.catalogue import make_services
from .conditions import PROFILING_S, Conditions, column
from .derived import Derived, asked_by
from .engine.engine import Timing
from .engine.foreseeing import Foresees
from .engine.outages import Failures
from .jobs.knowledge import Knows
from .jobs.lengths import Lengths
from .results.identity import digest
from .traces.cluster_file import FILES
from .traces.deadlines import DeadlineRule, rule_of


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PolicyChoice(_Strict):
    name: str
    options: dict[str, Any] = {}
    label: str = ""

    def shown(self) -> str:
        """Return the label, or else the name with its options."""
        options = ",".join(f"{k}={json.dumps(v).strip(chr(34))}" for k, v in sorted(self.options.items()))
        return self.label or self.name + (f" {options}" if options else "")


class TraceChoice(_Strict):
    """A trace from a file, or jobs that are drawn from the seed."""

    path: str | None = None
    format: str | None = None
    jobs: int = Field(default=160, ge=1)
    rate: float = Field(default=20.0, gt=0, allow_inf_nan=False, description="Jobs per hour.")
    split: str | None = Field(default=None, description="Weights of image, language and speech jobs.")
    sizes: str = "single"
    at_once: bool = False
    deadlines: str | None = Field(default=None, description="A rule such as strict=0.7,soft=0.2.")

    @model_validator(mode="after")
    def _can_be(self) -> TraceChoice:
        if self.path is not None and self.split is not None:
            raise ValueError("split: makes jobs up, so it goes without path")
        _ = self.derived, self.rule
        return self

    @property
    def derived(self) -> Derived | None:
        """What is derived from Philly's shape; None: nothing."""
        return asked_by(self.split, self.sizes, self.at_once, self.jobs, self.rate)

    @property
    def rule(self) -> DeadlineRule | None:
        """By which rule jobs get deadlines; None: by none."""
        return None if self.deadlines is None else rule_of(self.deadlines)

    def shown(self) -> str:
        """Return the path, or else what is drawn, and the rule of deadlines."""
        return self._drawn() + (f" with {self.deadlines}" if self.deadlines else "")

    def _drawn(self) -> str:
        if self.derived is not None:
            return self.derived.shown
        return f"synthetic {self.jobs} at {self.rate:g}/h" if self.path is None else self.path


class SweepFile(_Strict):
    policies: tuple[PolicyChoice, ...] = Field(min_length=1)
    traces: tuple[TraceChoice, ...] = Field(default=(TraceChoice(),), min_length=1)
    clusters: tuple[str, ...] = Field(default=("6x t4:4, 3x rtx:8, 2x a100:8",), min_length=1)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    round_interval_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    events: bool = False
    knows: Knows | None = None
    lengths: Lengths = Lengths.TOLD
    estimates: str | None = None
    services: dict[str, dict[str, Any]] = {}
    boot_s: float = Field(default=300.0, ge=0, allow_inf_nan=False)
    shares: str | None = None
    foresees: Foresees | None = None
    pairs: str | None = None
    usage: str | None = None
    node_speeds: str | None = None
    length_noise: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    restart_scale: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    early_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    noise: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    profiling_cost_s: float = Field(default=PROFILING_S, ge=0, allow_inf_nan=False)
    node_mtbf_h: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    node_repair_h: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    profiles: str | None = None
    same_conditions: bool = False

    @field_validator("services")
    @classmethod
    def _known(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        make_services(value)
        return value

    @field_validator("policies", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return (
            [{"name": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value
        )

    @field_validator("traces", mode="before")
    @classmethod
    def _paths(cls, value: Any) -> Any:
        return (
            [{"path": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value
        )


@dataclass(frozen=True)
class Cell:
    """One run of a sweep. It is a plain value, so it can travel to another process. Paths are absolute."""

    policy: str
    label: str
    options: str  # JSON
    trace: TraceChoice
    trace_shown: str
    cluster: str
    cluster_shown: str
    seed: int
    round_interval_s: float
    events: bool
    knows: str
    noise: float
    profiling_cost_s: float
    profiles: str | None
    early_s: float | None = None
    node_mtbf_h: float | None = None
    node_repair_h: float = 1.0
    lengths: str = Lengths.TOLD
    estimates: str | None = None
    services: str = "{}"  # JSON
    boot_s: float = 300.0
    shares: str | None = None
    foresees: str | None = None
    pairs: str | None = None
    usage: str | None = None
    node_speeds: str | None = None
    length_noise: float = 0.0
    restart_scale: float = 1.0
    same_conditions: bool = False
    inputs: tuple[tuple[str, str], ...] = ()  # (which file, SHA-256) when the sweep began

    def under(self) -> Conditions:
        """Return the conditions of the run. Raise ValueError for conditions that cannot be."""
        mtbf_h, repair_h = self.node_mtbf_h, self.node_repair_h
        return Conditions(
            Timing(self.round_interval_s, self.events, early_s=self.early_s),
            Knows(self.knows),
            self.noise,
            self.seed,
            None if mtbf_h is None else Failures(mtbf_h * 3600, repair_h * 3600, self.seed),
            self.profiling_cost_s,
            Lengths(self.lengths),
            self.same_conditions,
            None if self.estimates is None else Path(self.estimates),
            json.loads(self.services),
            self.boot_s,
            None if self.shares is None else Path(self.shares),
            None if self.foresees is None else Foresees(self.foresees),
            pairs=None if self.pairs is None else Path(self.pairs),
            usage=None if self.usage is None else Path(self.usage),
            node_speeds=None if self.node_speeds is None else Path(self.node_speeds),
            length_noise=self.length_noise,
            restart_scale=self.restart_scale,
        )

    def about(self) -> dict[str, Any]:
        """Return what is kept with the run and identifies it."""
        return {
            "policy": self.policy,
            "policy_options": json.loads(self.options),
            "trace": self.trace_shown,
            "trace_format": self.trace.format,
            "cluster": self.cluster_shown,
            "knows": self.knows,
            "profiles": None if self.profiles is None else Path(self.profiles).name,
            **self.under().about(),
            **dict(self.inputs),
        }


def read_sweep(path: Path) -> SweepFile:
    """Read a sweep file. Raise ValueError, in one sentence with file, field and value, for bad input."""
    try:
        with path.open("rb") as file:
            values = safe_yaml.read(file.read(safe_yaml.MAX_BYTES + 1))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from None
    except safe_yaml.YamlProblem as error:
        raise ValueError(f"{path}: {safe_yaml.told(error, 'sweep file')}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path}: a sweep is a mapping of fields such as `policies: [sia, fifo]`")
    try:
        found = SweepFile.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{path}: {_sentence(error)}") from None
    labels = [policy.shown() for policy in found.policies]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{path}: policies: {label!r} stands twice; give each a `label` of its own")
    return found


def cells(sweep: SweepFile, folder: Path) -> Iterator[Cell]:
    """Yield every run. Policies are innermost, so that each trace is compared early.

    Paths are relative to `folder`. A seed draws a synthetic trace, the noise and node failures. Without any of
    these every seed gives the same run.
    """

    digests: dict[str | None, str | None] = {}

    def located(given: str | None) -> str | None:
        return None if given is None else str((folder / given).resolve())

    def inputs(**given: str | None) -> tuple[tuple[str, str], ...]:
        for path in given.values():
            if path not in digests:
                digests[path] = _digest(path)
        return tuple((f"{name}_sha256", sha) for name, path in given.items() if (sha := digests[path]) is not None)

    asked = Conditions(knows=sweep.knows, same=sweep.same_conditions)
    profiles = located(sweep.profiles)
    for cluster in sweep.clusters:
        cluster_file = located(cluster) if Path(cluster).suffix in FILES else None
        for trace in sweep.traces:
            trace_file = located(trace.path)
            for seed in sweep.seeds:
                for policy in sweep.policies:
                    yield Cell(
                        policy=policy.name,
                        label=policy.shown(),
                        options=json.dumps(policy.options, sort_keys=True),
                        trace=trace.model_copy(update={"path": trace_file}),
                        trace_shown=trace.shown(),
                        cluster=cluster_file or cluster,
                        cluster_shown=cluster,
                        seed=seed,
                        round_interval_s=sweep.round_interval_s,
                        events=sweep.events,
                        knows=str(column(make_policy(policy.name, **policy.options).traits, asked).knows),
                        noise=sweep.noise,
                        profiling_cost_s=sweep.profiling_cost_s,
                        profiles=profiles,
                        early_s=sweep.early_s,
                        node_mtbf_h=sweep.node_mtbf_h,
                        node_repair_h=sweep.node_repair_h,
                        lengths=str(sweep.lengths),
                        estimates=located(sweep.estimates),
                        services=json.dumps(sweep.services, sort_keys=True),
                        boot_s=sweep.boot_s,
                        shares=located(sweep.shares),
                        foresees=sweep.foresees,
                        pairs=located(sweep.pairs),
                        usage=located(sweep.usage),
                        node_speeds=located(sweep.node_speeds),
                        length_noise=sweep.length_noise,
                        restart_scale=sweep.restart_scale,
                        same_conditions=sweep.same_conditions,
                        inputs=inputs(trace=trace_file, cluster=cluster_file, profiles=profiles),
                    )


def _digest(path: str | None) -> str | None:
    """Return the SHA-256 of a file; None if there is no path, or the file cannot be read. The run reports that."""
    try:
        return None if path is None else digest(Path(path))
    except OSError:
        return None


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{field}: is no field of a sweep; accepted: {', '.join(SweepFile.model_fields)}"
    if first["type"] == "missing":
        return f"{field}: is missing"
    return f"{field}: {first['input']!r} is not accepted: {first['msg'].removeprefix('Value error, ')}"
