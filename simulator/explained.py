"""What a policy says about one job in one round of a simulated run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import cast

from ..policies.contract.explanation import Explanation
from ..policies.contract.policy import Policy
from ..policies.contract.round import JobView, Plan, Round
from .engine.engine import Engine
from .engine.errors import Stuck
from .engine.views import Views
from .run import Simulation


@dataclass(frozen=True)
class ExplainedRound:
    """What a policy says of a job in the round at `time_s`, seconds of the trace."""

    time_s: float
    explanation: Explanation


def explain(run: Simulation, job: str, at_s: float | None = None) -> ExplainedRound:
    """Run until a round in which a job waits or runs, and return what its policy says of it there.

    The explanation is made within the round, before its plan is carried out.

    `run`: a run that has not begun; without services only the pool of the job goes on.
    `at_s`: take the first such round at or after this time, s; None: take the last one.

    Raise ValueError if the trace does not have the job, or the job had ended. Raise RunFailed if the run cannot
    go on to that round.
    """
    if at_s is not None and not (math.isfinite(at_s) and at_s >= 0):
        raise ValueError(f"--at: {at_s} must be 0 seconds or more")
    engine = _engine_of(run, job)
    policy = cast(Policy, engine.policy)  # simulations use policies of the catalogue only
    found: ExplainedRound | None = None

    def watch(round: Round, plan: Plan) -> None:
        nonlocal found
        if (at_s is None or round.now >= at_s) and (round.columns.ids == job).any():
            named = replace(round, jobs=_named(round, job))
            found = ExplainedRound(round.now, policy.explain(job, named, plan))

    engine.watch = watch
    try:
        while math.isnan(engine.finished_s(job)) and (at_s is None or found is None):
            # Services see all pools, so that all go on then.
            run.step() if engine.services is not None else engine.step()
    except Stuck:  # the job waits for ever; its last round says why
        if found is None:
            raise
    if found is None:
        raise ValueError(
            f"--at: {at_s:g} s: job {job} had ended at {engine.finished_s(job):g} s; give a time before"
        )
    return found


def _named(round: Round, job: str) -> Views:
    """Return the jobs of a round; this job gets its id as name, since jobs of a trace have no names."""

    def view(at: int) -> JobView:
        found = round.jobs[at]
        return found if found.id != job else replace(found, spec=found.spec.model_copy(update={"name": job}))

    return Views(round.columns, view)


def _engine_of(run: Simulation, job: str) -> Engine:
    """Return the engine whose jobs include this one. Raise ValueError if there is none."""
    for engine in run.engines:
        if job in engine.world.workload.ids:
            return engine
    ids = [id for engine in run.engines for id in engine.world.workload.ids]
    near = get_close_matches(job, ids, 1)
    listed = ", ".join([*ids[:3], *(["…"] if len(ids) > 3 else [])])
    hint = f"; did you mean {near[0]}?" if near else f"; its {len(ids)} jobs are {listed}"
    raise ValueError(f"--explain: the trace has no job {job!r}{hint}")
