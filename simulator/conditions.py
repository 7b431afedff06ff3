"""The conditions of a simulated run: all that matters beside its trace, its cluster and its policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.scaling_settings import ScalingSettings
from ..policies.contract.traits import PolicyTraits
from .engine.engine import Timing
from .engine.foreseeing import Foresees
from .engine.outages import Failures
from .jobs.knowledge import Knows
from .jobs.lengths import Lengths
from .results.identity import digest

DURATIONS = "durations"  # the service whose forecasts policies are told
TEAM_LOAD = "team_load"  # the service that foretells what teams submit, and the classes of lengths
EARLY_S = 0.5  # the live service's debounce
PROFILING_S = 20.0  # the most that a profile takes on average (Sia, section 3.3.2)
KNOWN = {
    Knows.ORACLE: "all that was measured (true)",
    Knows.BOOTSTRAP: "one replica on each GPU type",
    Knows.PROFILE_CACHE: "what earlier jobs of its script measured",
    Knows.NO_PROFILE: "nothing",
}
TOLD = {
    Lengths.TOLD: "what is true",
    Lengths.LEARNED: "what earlier runs of the same user took",
    Lengths.UNKNOWN: "nothing",
    Lengths.FORETOLD: "what a service foretells when a job is submitted",
    Lengths.PERTURBED: "what is true, with the errors of Helios' estimates",
    Lengths.ESTIMATED: "what a file of estimates says",
    Lengths.MEASURED: "what is true, once it was measured by training, or one of its script",
}
TOLD_OF = "told of how long jobs take"
BY_CURVES = (Lengths.TOLD, Lengths.MEASURED)  # of jobs that a metric ends, these tell what their curves say
FORETOLD = {
    Foresees.PERFECT: "all of them",
    Foresees.LEARNED: "what the service team_load foretells",
    Foresees.ALWAYS: "as many as of late",
    Foresees.RANDOM: "as many as of late, or none, by chance",
    Foresees.NOTHING: "that none come",
}
ROUNDS, KNOWLEDGE, PROFILE_RUNS = "rounds", "known of a job before it runs", "profile runs"
OPEN = (ROUNDS, KNOWLEDGE, PROFILE_RUNS)  # the policy decides these unless they are asked for


@dataclass(frozen=True)
class Conditions:
    """The conditions that a user asks for.

    The policy's traits decide what is left open (`column`); with `same`, all policies get the same.

    `knows`: what jobs know before they run; None: left open.
    `noise`: relative deviation of what jobs measure.
    `seed`: seed of everything that is drawn.
    `profiling_s`: seconds that a job waits for its profiles, on all GPU types at once.
    `lengths`: what policies are told of jobs that have a duration.
    `estimates`: the file of estimates, for `Lengths.ESTIMATED`.
    `services`: options by name of the services that run beside; with `durations`, `lengths` is what it foretells.
    `boot_s`: until a node is back that a service wakes.
    `shares`: the file of teams; None: there are none.
    `foresees`: what policies are told of the jobs that teams will submit; None: nothing.
    `scaling`: which nodes are bought and given up; None: all nodes are there.
    `pairs`: a file of measured speeds of jobs that share GPUs; None: as a model foretells.
    `usage`: a file of what jobs use of their GPUs; None: nobody knows, so no policy shares any.
    `node_speeds`: a file of how much slower jobs are on more nodes; None: they are not.
    `length_noise`: standard deviation of lengths that are told or measured, over the true ones.
    `restart_scale`: what restarts cost is multiplied with it.
    `same`: what is left open is as in the live service, whatever the policy counts on.
    """

    timing: Timing = field(default_factory=Timing)
    knows: Knows | None = None
    noise: float = 0.0
    seed: int = 0
    failures: Failures | None = None
    profiling_s: float = PROFILING_S
    lengths: Lengths = Lengths.TOLD
    same: bool = False
    estimates: Path | None = None
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    boot_s: float = 300.0
    shares: Path | None = None
    foresees: Foresees | None = None
    scaling: ScalingSettings | None = None
    pairs: Path | None = None
    usage: Path | None = None
    node_speeds: Path | None = None
    length_noise: float = 0.0
    restart_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.foresees is not None and self.shares is None:
            raise ValueError("--foresees: tells of the jobs of teams, so it goes with --shares")
        if not 0 <= self.boot_s < math.inf:
            raise ValueError(f"boot_s: {self.boot_s} must be 0 seconds or more, and finite")
        if not 0 <= self.profiling_s < math.inf:
            raise ValueError(f"profiling_s: {self.profiling_s} must be 0 seconds or more")
        if (self.lengths is Lengths.ESTIMATED) != (self.estimates is not None):
            raise ValueError("--estimates: a file of estimates goes with --lengths estimated, and the other way")
        for name in ("length_noise", "restart_scale"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}: {getattr(self, name)} must be 0 or more, and finite")
        if self.length_noise and self.lengths not in (Lengths.TOLD, Lengths.MEASURED):
            raise ValueError(f"length_noise: goes with lengths that are told or measured, and not {self.lengths}")
        if DURATIONS in self.services and self.lengths is Lengths.TOLD:
            object.__setattr__(self, "lengths", Lengths.FORETOLD)
        if self.foresees is Foresees.LEARNED and TEAM_LOAD not in self.services:
            object.__setattr__(self, "services", {**self.services, TEAM_LOAD: {}})
        if self.lengths is Lengths.FORETOLD and not {DURATIONS, TEAM_LOAD} & set(self.services):
            object.__setattr__(self, "services", {**self.services, DURATIONS: {}})

    def about(self) -> dict[str, Any]:
        """Return what identifies a run, as JSON values. What was not asked for is left out."""
        found: dict[str, Any] = {
            "seed": self.seed,
            "round_interval_s": self.timing.interval_s,
            "events": self.timing.events,
            "noise": self.noise,
            "profiling_cost_s": self.profiling_s,
        }
        if self.timing.early_s is not None:
            found["early_s"] = self.timing.early_s
        if self.lengths is not Lengths.TOLD:
            found["lengths"] = str(self.lengths)
        if self.estimates is not None:
            found["estimates_sha256"] = digest(self.estimates)
        if self.services:
            found["services"] = {name: dict(options) for name, options in self.services.items()}
        if self.shares is not None:
            found["shares_sha256"] = digest(self.shares)
        if self.foresees is not None:
            found["foresees"] = str(self.foresees)
        for name, path in (("pairs", self.pairs), ("usage", self.usage), ("node_speeds", self.node_speeds)):
            if path is not None:
                found[f"{name}_sha256"] = digest(path)
        if self.scaling is not None:
            found["scaling"] = self.scaling.model_dump()
        for name in ("length_noise", "restart_scale"):
            if (value := getattr(self, name)) != getattr(Conditions, name):
                found[name] = value
        if self.boot_s != Conditions.boot_s:
            found["boot_s"] = self.boot_s
        if self.failures is not None:
            found["node_mtbf_h"] = self.failures.mean_up_s / 3600
            found["node_repair_h"] = self.failures.repair_s / 3600
        return found | ({"same_conditions": True} if self.same else {})


@dataclass(frozen=True)
class Column:
    """The conditions of one policy's run, with nothing left open.

    `trains`: jobs train models, so that they know something and may be measured; else they have lengths or steps.
    `profiled`: a job is measured before its first run.
    `fixed_sizes`: jobs get the GPUs they ask for.
    `restart`: what a restart costs a job, in words.
    `has_lengths`: jobs have a duration.
    `crosses_pools`: the policy plans all pools at once. `shares_gpus`: two jobs may be on one GPU.
    `knows_uses`: it is known what some jobs use of their GPUs.
    `metric_ends`: part of the jobs that end when a metric reaches its target.
    """

    timing: Timing
    knows: Knows
    trains: bool
    profiled: bool
    fixed_sizes: bool
    restart: str
    has_lengths: bool = False
    crosses_pools: bool = False
    shares_gpus: bool = False
    knows_uses: bool = False
    metric_ends: float = 0.0

    def described(self, under: Conditions, pools: tuple[str, ...] = (), named: bool = False) -> dict[str, str]:
        """Return the conditions by name, both in words.

        `pools`: the policy runs in each of them by itself. `named`: the trace names pools, which a cluster without
        pools does not have.
        """
        timing = self.timing
        rounds = f"every {timing.interval_s:g} s"
        if timing.events:
            rounds = "when jobs arrive or end"
        elif timing.early_s is not None:
            rounds += f", and {timing.early_s:g} s after a job arrives or ends"
        found = {ROUNDS: rounds, "GPUs of a job": "as it asks" if self.fixed_sizes else "the policy chooses"}
        if self.trains:
            found[KNOWLEDGE] = KNOWN[self.knows]
            found[PROFILE_RUNS] = self._profile_runs(under.profiling_s)
        if self.has_lengths:
            found |= self._lengths(under.lengths)
            if under.length_noise:
                found["errors of these lengths"] = f"{under.length_noise:.0%} in the mean square"
        if under.restart_scale != 1:
            found["restarts cost"] = f"{under.restart_scale:g} times that"
        found["a restart costs a job"] = self.restart
        if under.node_speeds is not None:
            found["on more nodes than it needs"] = "a job is slower, as measured"
        found["noise of measurements"] = f"{under.noise:.2%}" if under.noise else "none"
        found["node failures"] = "none"
        if (failures := under.failures) is not None:
            up_h, down_h = failures.mean_up_s / 3600, failures.repair_s / 3600
            found["node failures"] = f"each node after {up_h:g} h on average, for {down_h:g} h"
        without = "none; those that the trace names are ignored" if named else "none"
        found["services"] = ", ".join(under.services) or "none"
        if under.shares is not None:
            found["teams"] = under.shares.name
        if under.foresees is not None:
            found["told of jobs to come"] = FORETOLD[under.foresees]
        how = "all at once" if self.crosses_pools else "each by itself"
        found["pools"] = f"{', '.join(pools)}: {how}" if pools else without
        if self.shares_gpus:
            measured = "as measured, else as a model says" if under.pairs is not None else "as a model says"
            known = measured if self.knows_uses else "none, as nobody knows what jobs use"
            found["speed of jobs on one GPU"] = known
        return found

    def _lengths(self, lengths: Lengths) -> dict[str, str]:
        told = TOLD[lengths]
        if not self.metric_ends:
            return {TOLD_OF: told}
        if lengths in BY_CURVES:
            rest = "" if self.metric_ends == 1 else f"; of others, {told}"
            told = f"estimates by the curve so far, of jobs that a metric ends{rest}"
        return {"how long jobs take": "as the trace says, also where a metric ends them", TOLD_OF: told}

    def _profile_runs(self, takes_s: float) -> str:
        if not self.profiled:
            return "none, jobs do not wait for them"
        if self.knows is Knows.BOOTSTRAP:
            return f"each job waits {takes_s:g} s for its own"
        return f"jobs wait up to {takes_s:g} s for the first of their script"


def column(
    traits: PolicyTraits,
    under: Conditions,
    *,
    trains: bool = True,
    recorded: bool = False,
    restart: str = "",
    has_lengths: bool = False,
) -> Column:
    """Return the conditions of a policy's run: what is asked for, or else what the policy counts on.

    `trains`: jobs train models.
    `recorded`: jobs ran on a live cluster, so rounds come early as they did there.
    `restart`: what a restart costs a job, in words.
    `has_lengths`: jobs have a duration.
    """
    timing, knows = under.timing, under.knows
    early = traits.early_rounds or recorded or under.same
    if early and not timing.events and timing.early_s is None:
        timing = replace(timing, early_s=EARLY_S)
    if knows is None:
        knows = Knows.PROFILE_CACHE if traits.profile_cache or under.same else Knows.BOOTSTRAP
    measured = trains and knows in (Knows.BOOTSTRAP, Knows.PROFILE_CACHE)
    profiled = measured and (traits.uses_models or under.same)
    return Column(
        timing,
        knows,
        trains,
        profiled,
        traits.fixed_sizes,
        restart,
        has_lengths,
        traits.crosses_pools,
        traits.shares_gpus,
    )


def differing(columns: Mapping[str, Mapping[str, str]]) -> tuple[list[str], dict[str, str]]:
    """Return the names of conditions that differ between columns, and those that are the same for all."""
    names = list(dict.fromkeys(name for found in columns.values() for name in found))
    values = {name: {found.get(name, "") for found in columns.values()} for name in names}
    return (
        [name for name in names if len(values[name]) > 1],
        {name: next(iter(values[name])) for name in names if len(values[name]) == 1},
    )


def shared(runs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the conditions of several runs as one; a condition that differs is said to differ."""
    names = dict.fromkeys(name for found in runs for name in found)
    values = {name: {found.get(name, "") for found in runs} for name in names}
    return {name: told.pop() if len(told) == 1 else "not the same in every run" for name, told in values.items()}
