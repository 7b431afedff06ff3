"""What limits of users and teams let a round give to which jobs, and how many may be submitted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...core.decisions import WaitReason
from ...core.placement import Placement
from ...core.teams import Limits, Priority, Teams, in_pool, kind_of
from .record import JobRecord

WARNED_AT = 0.8  # part of a month's value units that are used
Group = tuple[str, str]  # "user" or "team", and its name
_Row = tuple[Group, str]  # whose limit it is, and of which GPU type, as a100@lab


@dataclass(frozen=True)
class HeldOut:
    """Why limits keep a job out of a round: the code, and a sentence for a person."""

    reason: WaitReason
    told: str


@dataclass(frozen=True)
class Admission:
    """What a round may give to jobs.

    held_out: those that take no part in it, by id.
    most: GPUs by GPU type that a job may have at most, by id; a type or a job that is absent has no such limit.
    least: jobs over a month's value units. They have only what nobody else wants: their weight is the least.
    """

    held_out: Mapping[str, HeldOut] = field(default_factory=dict)
    most: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    least: frozenset[str] = frozenset()


EVERYTHING = Admission()


def limited(teams: Teams | None) -> bool:
    """Return whether any limit is set."""
    if teams is None:
        return False
    return any(one != Limits() for one in (teams.user_limits, *(team.limits for team in teams.teams.values())))


def groups_of(owner: str, named: str | None, teams: Teams) -> dict[Group, Limits]:
    """Return whose limits count for a job: its user's, and its team's."""
    found = {("user", owner): teams.user_limits}
    if (team := teams.counted_for(named)) is not None:
        found["team", team] = teams.teams[team].limits
    return found


def queue_refusal(
    owner: str, named: str | None, jobs: Iterable[JobRecord], teams: Teams | None, more: int = 1
) -> str:
    """Return why so many more jobs of a user may not be submitted, a sentence; "": they may.

    Args:
        jobs: all that are active; those that hold no GPUs count.
    """
    if not limited(teams) or teams is None:
        return ""
    mine = groups_of(owner, named, teams)
    if all(limits.queued is None for limits in mine.values()):
        return ""
    queued: Counter[Group] = Counter()
    for job in jobs:
        if job.active and not job.has_slots:
            queued.update(groups_of(job.owner, job.spec.team, teams).keys() & mine.keys())
    for group, limits in mine.items():
        if limits.queued is not None and queued[group] + more > limits.queued:
            what = "it" if more == 1 else f"these {more} jobs"
            return (
                f"limits.queued: {_called(group)} has {_jobs(queued[group], 'queued')}, and {what} would exceed "
                f"its {limits.queued}; one that starts or ends makes room"
            )
    return ""


def admission(
    jobs: Sequence[JobRecord],
    teams: Teams | None,
    spent: Mapping[Group, float],
    types_of: Callable[[JobRecord], Collection[str]],
    set_aside: Sequence[JobRecord] = (),
) -> Admission:
    """Return what a round may give to the jobs that may be planned in it.

    Jobs that hold GPUs come first, then those that were bumped, then by priority and submission. Those that wait
    and whose budget is used up come last: they take part where nobody else who does waits for such GPUs.

    Args:
        jobs: queued or running, in submission order.
        spent: value units of this month by user and team.
        types_of: returns the GPU types of the nodes that a job may use.
        set_aside: jobs that keep what they have and are not planned, which count towards limits.
    """
    if teams is None or not limited(teams):
        return EVERYTHING
    groups = {job.id: groups_of(job.owner, job.spec.team, teams) for job in (*jobs, *set_aside)}
    held_out: dict[str, HeldOut] = {}
    least = frozenset(job.id for job in jobs if over_budget(groups[job.id], spent))
    running: Counter[Group] = Counter()
    for job in set_aside:
        if job.placement is not None:
            running.update(groups[job.id].keys())
    taking_part: list[JobRecord] = []
    wanted: set[str] = set()
    for job in sorted(jobs, key=lambda job: (job.id in least and not job.target, order(job))):
        mine = groups[job.id]
        if job.id in least and not job.target and wanted & set(types_of(job)):
            group = over_budget(mine, spent)
            assert group is not None
            told = f"{_called(group)} has used its value units of this month, and other jobs wait for such GPUs"
            held_out[job.id] = HeldOut(WaitReason.BUDGET_USED, told)
            continue
        full = [g for g, limits in mine.items() if limits.running is not None and running[g] >= limits.running]
        if full:
            told = f"{_called(full[0])} has {_jobs(running[full[0]], 'running')}, which is its limit"
            held_out[job.id] = HeldOut(WaitReason.LIMIT_RUNNING, told)
            continue
        running.update(mine.keys())
        taking_part.append(job)
        if least and not job.target and job.id not in least:
            wanted |= set(types_of(job))
    most = _dealt(taking_part, groups, held_out, types_of, set_aside)
    return Admission(held_out, most, least)


def order(job: JobRecord) -> tuple[bool, float, float, int]:
    """Return where a job comes among its user's and its team's: what holds GPUs, what was bumped, by priority."""
    priority = job.spec.priority or Priority.NORMAL
    return not job.target, -job.bumped, -priority.factor, job.number


def over_budget(groups: Mapping[Group, Limits], spent: Mapping[Group, float]) -> Group | None:
    """Return who has used up a month's value units; None: nobody."""
    for group, limits in groups.items():
        if limits.value_units_a_month is not None and spent.get(group, 0.0) >= limits.value_units_a_month:
            return group
    return None


def budget_notes(teams: Teams | None, spent: Mapping[Group, float]) -> dict[Group, tuple[float, str]]:
    """Return who has used 80 % of a month's value units or all of them: the part, and a sentence."""
    found: dict[Group, tuple[float, str]] = {}
    if teams is None:
        return found
    for group, units in spent.items():
        limits = teams.user_limits if group[0] == "user" else None
        if group[0] == "team" and group[1] in teams.teams:
            limits = teams.teams[group[1]].limits
        most = None if limits is None else limits.value_units_a_month
        if most is None or units < WARNED_AT * most:
            continue
        used = f"{_called(group)} has used {units:.4g} of its {most:.4g} value units of this month"
        beyond = "; until its end its jobs have only what nobody else wants" if units >= most else ""
        found[group] = (1.0 if units >= most else WARNED_AT), used + beyond
    return found


def _dealt(
    jobs: Sequence[JobRecord],
    groups: Mapping[str, Mapping[Group, Limits]],
    held_out: dict[str, HeldOut],
    types_of: Callable[[JobRecord], Collection[str]],
    set_aside: Sequence[JobRecord],
) -> dict[str, dict[str, int]]:
    """Return the most GPUs of each type that each job may have, so that no plan can exceed a limit.

    What a job holds is kept for it first, and the fewest with which each other one runs. The rest is dealt in
    equal parts.
    """
    limited_jobs: dict[str, dict[str, list[_Row]]] = {}
    left = {
        (group, kind): gpus
        for mine in groups.values()
        for group, limits in mine.items()
        for kind, gpus in limits.gpus.items()
    }
    for job in set_aside:
        if (has := job.placement) is not None:
            for row in {(group, kind_of(has.gpu_type, job.spec.pool)) for group in groups[job.id]} & left.keys():
                left[row] = max(left[row] - has.gpus, 0)
    for job in jobs:
        for group, limits in groups[job.id].items():
            for gpu_type in in_pool(limits.gpus, job.spec.pool):
                limited_jobs.setdefault(job.id, {}).setdefault(gpu_type, []).append(
                    (group, kind_of(gpu_type, job.spec.pool))
                )
    most: dict[str, dict[str, int]] = {}
    for job in jobs:
        if job.id not in limited_jobs:
            continue
        most[job.id] = {}
        for gpu_type, mine in limited_jobs[job.id].items():
            room = min(left[row] for row in mine)
            kept = min(_held(job.placement, gpu_type) or _fewest(job, gpu_type), room)
            if kept < _fewest(job, gpu_type):
                kept = 0
            most[job.id][gpu_type] = kept
            for row in mine:
                left[row] -= kept
        nothing = [t for t, gpus in most[job.id].items() if not gpus]
        if nothing and not set(types_of(job)) - set(nothing):
            group = limited_jobs[job.id][nothing[0]][0][0]
            told = f"{_called(group)} has as many GPUs of {', '.join(nothing)} as its limit allows"
            held_out[job.id] = HeldOut(WaitReason.LIMIT_GPUS, told)
            for gpu_type, kept in most.pop(job.id).items():
                for row in limited_jobs[job.id][gpu_type]:
                    left[row] += kept
    _deal_rest(jobs, limited_jobs, left, most)
    return most


def _deal_rest(
    jobs: Sequence[JobRecord],
    limited_jobs: Mapping[str, Mapping[str, Sequence[_Row]]],
    left: dict[_Row, int],
    most: dict[str, dict[str, int]],
) -> None:
    """Deal what is left of each GPU type in equal parts to those that may have more of it."""
    takers: Counter[_Row] = Counter()
    for job_id, kept in most.items():
        for gpu_type, gpus in kept.items():
            if gpus:
                takers.update(limited_jobs[job_id][gpu_type])
    for job in jobs:
        for gpu_type, gpus in most.get(job.id, {}).items():
            if not gpus:
                continue
            mine = limited_jobs[job.id][gpu_type]
            more = min(-(-left[one] // takers[one]) for one in mine)
            most[job.id][gpu_type] = gpus + max(min(more, job.spec.most_gpus - gpus), 0)
            for one in mine:
                left[one] -= most[job.id][gpu_type] - gpus
                takers[one] -= 1


def _held(placement: Placement | None, gpu_type: str) -> int:
    return placement.gpus if placement is not None and placement.gpu_type == gpu_type else 0


def _fewest(job: JobRecord, gpu_type: str) -> int:
    """Return the fewest GPUs of a type with which a job runs."""
    resources, each = job.spec.resources, job.spec.gpus_per_replica(gpu_type) or 1
    sizes = job.spec.sizes_on(gpu_type)
    least = resources.gpus or (min(sizes) if sizes else resources.min_gpus)
    return -(-least // each) * each


def _jobs(count: int, state: str) -> str:
    return f"{count} {state} job{'s' * (count != 1)}"


def _called(group: Group) -> str:
    return f"{group[0]} {group[1] or 'nobody'}"
