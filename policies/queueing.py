"""Policies that order jobs of a fixed size and serve them from the front."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..core.placement import Placement
from .admission import choosing, starting
from .choosing.decided import QueueReasons, decisions_of
from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import JobColumns, JobView, Plan, Round
from .contract.traits import PolicyTraits
from .placing.ledger import Ledger, is_pinned
from .placing.rooms import all_nodes, ledger_of, room
from .provisioning.options import ProvisioningOptions, provisioner_of
from .provisioning.provisioner import gpus_alone
from .provisioning.told import told


class QueueingOptions(BaseModel):
    """What an operator may set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Whether jobs start on the GPU type with most free GPUs, rather than on the one that runs them fastest.
    type_blind: bool = False


class ProvisionedOptions(QueueingOptions, ProvisioningOptions):
    """What an operator may set where the policy also chooses CPUs and memory."""


def served(round: Round, order: np.ndarray, options: QueueingOptions, *, preempts: bool) -> Plan:
    """Return the plan in which jobs are served in an order, with CPUs and memory as the options say.

    Where there are teams, their terms decide who runs where, and provisioning then chooses CPUs and memory.
    """
    serve = preempting if preempts else in_order
    provisioner = provisioner_of(options) if isinstance(options, ProvisionedOptions) else None
    if provisioner is None:
        return serve(round, order, type_blind=options.type_blind)
    if round.sharing is None:
        return provisioner.plan(round, order, preempts=preempts, type_blind=options.type_blind)
    return provisioner.within(round, serve(gpus_alone(round), order, type_blind=options.type_blind))


def in_order(round: Round, order: np.ndarray, *, type_blind: bool = False) -> Plan:
    """Preempt nothing; waiting jobs start in `order` (positions in the round), none before its turn.

    A job that would not even fit into the empty cluster holds up nobody. Nodes that sleep count as its nodes: they
    wake for the job.
    """
    if round.sharing is not None:
        return starting(round, round.sharing, order, type_blind=type_blind, overtakes=False)
    columns = round.columns
    ledger, empty = ledger_of(round, np.flatnonzero(columns.held > 0)), Ledger(all_nodes(round))
    tried = np.zeros(len(order), bool)
    for i in order:
        if columns.held[i] and columns.ids[i] in ledger.held:
            continue
        tried[i] = True
        found = room(ledger, round, i, type_blind)
        if found is not None:
            ledger.take(columns.ids[i], found)
        elif room(empty, round, i, type_blind) is not None:
            break
    return _plan_of(round, dict(ledger.held), order, tried)


def preempting(round: Round, order: np.ndarray, *, type_blind: bool = False) -> Plan:
    """Run the jobs that come first in `order`, as long as their GPUs fit the cluster, and stop the others.

    Whoever runs and may not be stopped is first. A job that does not fit is passed over. One that is to run keeps
    its placement; one that finds no room on few nodes waits, and its GPUs with it. Nobody waits with a job that
    would not even fit into the empty cluster.
    """
    if round.sharing is not None:
        alone = preempting(replace(round, sharing=None), order, type_blind=type_blind)
        return choosing(round, round.sharing, order, alone, type_blind=type_blind)
    columns, empty = round.columns, Ledger(round.cluster)
    pinned = (columns.held > 0) & ~columns.preemptible
    for i in np.flatnonzero(pinned).tolist():
        pinned[i] = is_pinned(round.jobs[i], round.cluster)
    if pinned.any():
        order = order[np.argsort(~pinned[order], kind="stable")]
    tried, asking = np.zeros(len(order), bool), order
    while True:
        ledger, chosen, in_vain = _first(round, asking, type_blind)
        tried[chosen] = True
        never = [i for i in in_vain if room(empty, round, i, type_blind) is None]
        if not never:
            return _plan_of(round, dict(ledger.held), order, tried)
        asking = asking[~np.isin(asking, never)]


def _first(round: Round, order: np.ndarray, type_blind: bool) -> tuple[Ledger, np.ndarray, list[int]]:
    """Return what the jobs first in `order` hold, their positions, and which of them found no room."""
    columns = round.columns
    admitted = _admitted(columns.gpus[order], sum(round.cluster.capacity().values()))
    chosen = order[admitted]
    running = columns.held[chosen] > 0
    ledger, in_vain = ledger_of(round, chosen[running]), list[int]()
    if len(ledger.held) < running.sum():  # GPUs of some are gone
        running = np.array([id in ledger.held for id in columns.ids[chosen].tolist()])
    for i in chosen[~running].tolist():
        found = room(ledger, round, i, type_blind)
        if found is not None:
            ledger.take(columns.ids[i], found)
        else:
            in_vain.append(i)
    return ledger, chosen, in_vain


def _plan_of(round: Round, placements: dict[str, Placement], order: np.ndarray, tried: np.ndarray) -> Plan:
    reasons = QueueReasons(round, placements, order, tried, len(round.cluster.gpu_types) > 1)
    return Plan(placements, decisions=decisions_of(round, placements, reasons.why), order=order)


class QueueingPolicy(ABC):
    """Serves jobs by priority, then by a key, smallest first. Ties go by submission, then by position.

    A job starts on the fastest GPU type that has room for it now. A running job is not moved to a faster type that
    becomes free.
    """

    traits: PolicyTraits
    options: QueueingOptions

    @abstractmethod
    def key(self, columns: JobColumns) -> np.ndarray:
        """Return (jobs,) the key of each job."""

    @abstractmethod
    def standing(self, job: JobView) -> str:
        """Say in a sentence what the key of a job is and how jobs are ordered by it."""

    def facts(self, job: JobView) -> Mapping[str, Any]:
        """Return what `standing` states."""
        return {}

    def plan(self, round: Round) -> Plan:
        columns = round.columns
        order = columns.by(self.key(columns))
        return served(round, order, self.options, preempts=self.traits.preempts)

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its place in the order and by what the order is made of."""
        view = round.jobs[job_of(job, round)]
        said = [self.standing(view), self.service()]
        if round.columns.priority is not None:
            said.append(
                f"Jobs of higher priority come before all others; its own is {view.spec.priority or 'normal'}."
            )
        provisioned, facts = told(job, round, plan)
        return explained(job, round, plan, [*said, *provisioned], {**self.facts(view), **facts})

    def service(self) -> str:
        """Say in a sentence how jobs are served in their order."""
        if self.traits.preempts:
            return "Jobs that run may be stopped for those before them."
        return "Nothing that runs is stopped, and no waiting job overtakes another that could run."


class TimeLeftPolicy(QueueingPolicy):
    """Serves jobs in the order of the time they still need, by the mean of `expected`.

    Jobs of unknown length come last, in order of submission. `rule` states the order in a sentence.
    """

    rule: str

    def key(self, columns: JobColumns) -> np.ndarray:
        return np.nan_to_num(columns.remaining_s, nan=np.inf)

    def standing(self, job: JobView) -> str:
        return f"{self.rule} {expectation(job, 'it comes last')[0]}"

    def facts(self, job: JobView) -> Mapping[str, Any]:
        return expectation(job, "")[1]


def _admitted(gpus: np.ndarray, capacity: int) -> np.ndarray:
    """Return a mask of the jobs that get GPUs when each in turn takes what it asks for, if that is left."""
    taken = np.cumsum(gpus) <= capacity
    if taken.all():
        return taken
    first = int(taken.argmin())
    left = capacity - int(gpus[:first].sum())
    taken[first:] = False
    at = first
    while left > 0:
        fits = np.flatnonzero(gpus[at:] <= left)
        if not len(fits):
            break
        at += int(fits[0])
        taken[at] = True
        left -= int(gpus[at])
        at += 1
    return taken
