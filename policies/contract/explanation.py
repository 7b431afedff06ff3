"""Explains why a job has what it has after a round: sentences for a person, and the facts that they state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...core.decisions import Decision, Placed, Refused, WaitReason
from ...core.placement import Placement, same_place
from ...core.resources import idle_gpus
from ...core.wording import n_gpus
from .round import JobView, Plan, Round
from .sharing import Standing

# The details of these reasons say how many GPUs the job needs.
SAY_WHAT_IS_NEEDED = (WaitReason.TOO_LARGE, WaitReason.NO_ROOM, WaitReason.FRAGMENTED)


@dataclass(frozen=True)
class Explanation:
    """What `coadapt explain JOB` shows.

    before, chosen: what the job held at the start of the round and what it gets, as "4xa100"; None for nothing.
    facts: plain values by name, which the sentences state; a policy adds its own.
    """

    job_id: str
    name: str
    decision: Decision
    before: str | None
    chosen: str | None
    sentences: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON. `decision` and `reason` are codes, and `lines` are for a person."""
        return {
            "job_id": self.job_id,
            "name": self.name,
            "decision": type(self.decision).__name__.lower(),
            "reason": str(getattr(self.decision, "reason", "")) or None,
            "before": self.before,
            "chosen": self.chosen,
            **self.facts,
            "lines": list(self.sentences),
        }


def job_of(job_id: str, round: Round) -> int:
    """Return the position of a job in the round. Raises KeyError if it is not there."""
    ids: list[str] = round.columns.ids.tolist()
    if job_id not in ids:
        raise KeyError(f"job: {job_id!r} is not in this round")
    return ids.index(job_id)


def named(placement: Placement | None) -> str | None:
    """Return a placement in words, such as `4xa100 (2 nodes)`; None for none."""
    if placement is None:
        return None
    spread = f" ({placement.nodes} nodes)" if placement.nodes > 1 else ""
    return f"{placement.gpus}x{placement.gpu_type}{spread}"


def headline(job: JobView, after: Placement | None, detail: str = "") -> str:
    """Say what the round does with a job. `detail` follows the GPUs that it gets."""
    name, before = job.id, job.placement
    was, gets = named(before), named(after)
    if after is None:
        return f"{name} gets nothing this round" + (f"; it had {was}." if was else ".")
    if before is None:
        return f"{name} starts on {gets}{detail}."
    if same_place(before, after):
        return f"{name} stays on {gets}{detail}."
    if was == gets:
        return f"{name} moves to other nodes, on {gets} as before{detail}."
    verb = "moves"
    if before.gpu_type == after.gpu_type and before.gpus != after.gpus:
        verb = "grows" if after.gpus > before.gpus else "shrinks"
    return f"{name} {verb} from {was} to {gets}{detail}."


def explained(
    job_id: str, round: Round, plan: Plan, standing: Sequence[str] = (), facts: Mapping[str, Any] | None = None
) -> Explanation:
    """Explain a job by the decision about it and by its place in the policy's order.

    Args:
        standing: the policy's own sentences on what it went by.
        facts: what these state.

    Raises:
        KeyError: if the round has no such job.
    """
    i = job_of(job_id, round)
    job, decision = round.jobs[i], plan.decision(job_id)
    after = plan.placements.get(job_id)
    sentences, found = [headline(job, after)], dict(facts or {})
    if isinstance(decision, Refused):
        sentences.append(decision.reason)
    elif not isinstance(decision, Placed):
        sentences.append(decision.detail)
        needs, free = job.spec.asked_gpus, idle_gpus(round.cluster, plan.placements.values())
        free = {t: gpus for t, gpus in free.items() if job.spec.gpus_per_replica(t)}
        found |= {"needs_gpus": needs, "free_gpus": free}
        if free:
            listed = ", ".join(f"{gpus} {t}" for t, gpus in free.items())
            sentences.append(
                f"Free after this round: {listed}."
                if decision.reason in SAY_WHAT_IS_NEEDED
                else f"It needs {n_gpus(needs)}; free after this round: {listed}."
            )
    if plan.order is not None:
        rank, count = int((plan.order == i).argmax()) + 1, len(plan.order)
        found |= {"rank": rank, "jobs": count}
        sentences.append(f"It is number {rank} of {count} in the policy's order.")
    sentences += [*standing, *(found_by_team := team_sentences(job_id, round, plan))]
    if found_by_team:
        found |= team_facts(job_id, round, plan)
    return Explanation(
        job_id=job_id,
        name=job.spec.name,
        decision=decision,
        before=named(job.placement),
        chosen=named(after),
        sentences=(*sentences, *(f"note: {note}" for note in notes_on(job_id, plan))),
        facts=found,
    )


def team_sentences(job_id: str, round: Round, plan: Plan) -> list[str]:
    """Say how a job's team stands on each GPU type that the job may use; nothing without teams."""
    return [standing.told(team, t) for team, t, standing in _standings(job_id, round, plan)]


def team_facts(job_id: str, round: Round, plan: Plan) -> dict[str, Any]:
    """Return what `team_sentences` state."""
    found = _standings(job_id, round, plan)
    by_type = {t: {**asdict(standing), "borrowed": standing.borrowed} for _, t, standing in found}
    return {"team": round.sharing.team.get(job_id) if round.sharing else None, "team_gpus": by_type}


def _standings(job_id: str, round: Round, plan: Plan) -> list[tuple[str, str, Standing]]:
    team = None if round.sharing is None else round.sharing.team.get(job_id)
    if team is None:
        return []
    spec = round.jobs[job_of(job_id, round)].spec
    return [(team, t, one) for t, one in plan.teams.get(team, {}).items() if spec.gpus_per_replica(t)]


def expectation(job: JobView, otherwise: str) -> tuple[str, dict[str, Any]]:
    """Return a sentence on how long a job still needs and who says so, and the same as facts.

    Args:
        otherwise: ends the sentence for a job of unknown length: what the policy does with such a job.
    """
    expected = job.expected
    if not expected.known:
        return f"{expected.text[0].upper()}{expected.text[1:]}, so {otherwise}.", {"expected": None}
    facts = {"mean_s": expected.mean_s, "low_s": expected.low_s, "high_s": expected.high_s}
    return f"Expected: {expected.text}.", {"expected": {**facts, "source": str(expected.source)}}


def plain_explanation(job_id: str, round: Round, plan: Plan) -> Explanation:
    """Explain a job of any policy: what it gets, why it waits, and its place in the order if there is one."""
    return explained(job_id, round, plan)


def notes_on(job_id: str, plan: Plan) -> list[str]:
    """Return the plan's notes on a job, and those on no job in particular."""
    return [note.text for note in plan.notes if note.job in (None, job_id)]
