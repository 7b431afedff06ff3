"""What `coadapt explain` answers: by the last round, or by where a job is outside of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core.cluster import Cluster
from ...core.deadline_answer import DeadlineAnswer
from ...core.decisions import WaitReason
from ...core.expected import Expected
from ...core.job import Phase
from ...core.json_numbers import plain
from ...core.sleeping import SleepingNode
from ...core.slot import Slot
from ...policies.contract.explanation import Explanation
from ...policies.contract.policy import Policy
from ..changes.status import status_of
from ..changes.targets import bound
from ..jobs.record import JobRecord
from ..observers.hooks import RoundDone
from .waiting import reason_shown, sleepers_waited_for, slept_then, why_outside


def explain(
    job: JobRecord,
    last: RoundDone | None,
    policy: Policy,
    cluster: Cluster | None,
    unplanned: str | None = None,
    *,
    compiling: bool = False,
    asleep: Sequence[SleepingNode] = (),
) -> dict[str, Any]:
    """Return why a job has what it has: by the last round, or by where the job is if that says nothing of it.

    cluster: None if it is not known.
    unplanned: what the policy has failed to plan since the last round, or which pools in it.
    compiling: whether the first round waits for its kernels.
    asleep: nodes that are powered off. The policy knows nothing of them.
    """
    held_back = job.paused or (job.on_hold and not job.target) or bool(job.quarantine)
    outside = not job.active or held_back or last is None or all(v.id != job.id for v in last.round.jobs)
    sleeps = cluster is not None and sleepers_waited_for(job, cluster, asleep)
    if last is not None and not held_back and not job.target and (kept := last.held_out.get(job.id)) is not None:
        told = explanation_outside_round(job, cluster, compiling=compiling, asleep=asleep)
        return told | {"reason": kept.reason.value, "lines": [f"{job.id} waits: {kept.told}"]}
    if last is None or outside or sleeps or (not job.target and slept_then(job, last)):
        return explanation_outside_round(job, cluster, compiling=compiling, asleep=asleep)
    found = explanation(policy.explain(job.id, last.round, last.plan))
    found["lines"] += _what_it_lacks(job, last.wanted.get(job.id, ()))
    failed = last.plan.failures
    if unplanned is not None and (not failed or (job.spec.pool or "") in failed):
        when = "In this round" if failed else f"This is of round {last.number}. Since then"
        found["lines"].append(f"{when} {unplanned}; jobs keep what they have.")
    return found


def told_of_its_length(job: JobRecord) -> list[str]:
    """Return a line with the sum by which a job's length was foretold; none where the model is no sum."""
    told = job.foretold
    return [] if told is None or not told.sum else [f"Its length was foretold as {told.sum}, by {told.basis}."]


def told_of_its_deadline(told: DeadlineAnswer | None, now: float) -> list[str]:
    """Return a line on whether a job's deadline will hold; none where nothing is known of that."""
    return [] if told is None else [f"Its deadline: {told.text(now)}."]


def told_of_its_target(job: JobRecord, last: RoundDone | None, lines: Sequence[str]) -> list[str]:
    """Return a line on when the job's target is to be reached, as the last round planned with it.

    None where it has no target, took no part or is of unknown length, and where `lines` say it already.
    """
    target, expected = job.spec.training.target, expected_of(job, last)
    if target is None or expected is None or any(expected.text in line for line in lines):
        return []
    return [f"Until {target.metric} is {bound(target)}: {expected.text}."]


def expected_of(job: JobRecord, last: RoundDone | None) -> Expected | None:
    """Return how long the last round expected a job to need; None: it did not know, or has ended since."""
    views = () if last is None or not job.active else last.round.jobs
    return next((view.expected for view in views if view.id == job.id and view.expected.known), None)


def _what_it_lacks(job: JobRecord, given: Iterable[Slot]) -> list[str]:
    """Return a line on slots that the last round gave to a job and that it does not have."""
    if not set(job.target) < set(given):
        return []
    has = f"{sum(slot.gpus for slot in job.target)}x{job.target[0].gpu_type}" if job.target else "none"
    return [f"It has {has} of these GPUs now: the others are not free yet, or it gave them up since."]


def why_not_in_round(
    job: JobRecord,
    cluster: Cluster | None,
    *,
    compiling: bool = False,
    asleep: Sequence[SleepingNode] = (),
) -> str:
    """One sentence for a job that took no part in the last round."""
    if not job.active:
        was = "was" if job.phase is Phase.CANCELLED else f"has {job.phase.value}:"
        return f"{job.id} {was} {job.state.reason}; `coadapt describe {job.id}` tells what it had"
    why = reason_shown(job, cluster, asleep) or (WaitReason.COMPILING if compiling else WaitReason.NEXT_ROUND).line
    status = status_of(job).value
    return f"{job.id} is {why}" if why.startswith(status) else f"{job.id} is {status}: {why}"


def explanation_outside_round(
    job: JobRecord,
    cluster: Cluster | None,
    *,
    compiling: bool = False,
    asleep: Sequence[SleepingNode] = (),
) -> dict[str, Any]:
    """Return what `explain` answers for a job that took no part in the last round.

    `decision` is "placed", "waiting" or "ended"; `reason` is a code of `WaitReason`, or how the job ended.
    """
    decision, reason = "waiting", why_outside(job, cluster, compiling, asleep).value
    if not job.active:
        decision, reason = "ended", job.phase.value
    return {
        "job_id": job.id,
        "name": job.spec.name,
        "decision": "placed" if job.active and job.target else decision,
        "reason": None if job.active and job.target else reason,
        "lines": [why_not_in_round(job, cluster, compiling=compiling, asleep=asleep)],
    }


def explanation(explained: Explanation) -> dict[str, Any]:
    """Return an explanation as plain JSON values, with its lines for people."""
    found: dict[str, Any] = plain(explained.to_dict())
    return found
