"""Each decision is there once, and each sentence of an explanation is true of the round that it speaks of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coadapt.core.decisions import Placed, Refused, Waiting, WaitReason
from coadapt.core.expected import UNKNOWN, Expected, ExpectedSource
from coadapt.core.placement import NodeShare, Placement, same_place
from coadapt.policies.catalogue import make_policy, policy_names, register
from coadapt.policies.choosing.decided import decisions_of
from coadapt.policies.coadapt import CoadaptPolicy
from coadapt.policies.contract.configuration import block
from coadapt.policies.contract.explanation import Explanation, named, plain_explanation
from coadapt.policies.contract.policy import Policy
from coadapt.policies.contract.round import JobView, Note, Plan, Round
from coadapt.policies.contract.traits import PolicyTraits
from coadapt.policies.placing.ledger import Ledger
from coadapt.policies.sia import SiaOptions, restart_factors
from coadapt.policies.themis import finish_time_fairness
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import after, cluster, job, left, model, on

QUICK: dict[str, dict[str, int]] = {"pollux": {"population": 10, "generations": 5}}
NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
UNKNOWN_LENGTH = "Nobody knows how long it still needs"
EXPECTED = rf"Expected: (?:about )?({NUMBER}) (d|h|min|s) left(?: \(({NUMBER}) to ({NUMBER})\))?, (.*)\."
BY_LENGTH = r"The (?:shortest jobs start first|jobs that end soonest run|least expected GPU-time comes first)\."
LENGTHS = [
    UNKNOWN,
    Expected(50.0, 40.0, 65.0, ExpectedSource.MEASURED_SPEED),
    Expected(7000.0, 2000.0, 30_000.0, ExpectedSource.EARLIER_RUNS),
    left(300_000.0, ExpectedSource.TRACE),
    Expected(20.0, 5.0, 60.0, ExpectedSource.ASSUMED),
]


def made(policy: str, **options: object) -> Policy:
    return make_policy(policy, **{**QUICK.get(policy, {}), **options})


def rigid(id: str, gpus: int = 1, **view: Any) -> JobView:
    view.setdefault("known", False)
    return job(id, gpus=gpus, adaptivity="rigid", **view)


# --- what is true, worked out anew from the round and the plan -------------------------------------------------


class Truth:
    """One job's part of a round."""

    def __init__(self, id: str, round: Round, plan: Plan, policy: Policy) -> None:
        self.round, self.plan, self.policy = round, plan, policy
        self.i = [view.id for view in round.jobs].index(id)
        self.job = round.jobs[self.i]
        resources = self.job.spec.resources
        self.needs = resources.gpus or resources.min_gpus
        self.types = [t for t in round.cluster.gpu_types if self.job.spec.gpus_per_replica(t)]
        self.capacity = round.cluster.capacity()
        held = [(p.gpu_type, p.gpus) for p in plan.placements.values()]
        self.free = {t: n - sum(g for kind, g in held if kind == t) for t, n in self.capacity.items()}

    def headline(self, text: str) -> bool:
        name, was, gets = (
            self.job.id,
            named(self.job.placement),
            named(self.plan.placements.get(self.job.id)),
        )
        if gets is None:
            return text == f"{name} gets nothing this round" + (f"; it had {was}." if was else ".")
        kept = same_place(self.job.placement, self.plan.placements[self.job.id])
        return text.startswith(
            f"{name} starts on {gets}"
            if was is None
            else f"{name} stays on {gets}"
            if kept
            else f"{name} moves to other nodes, on {gets} as before"
            if was == gets
            else f"{name} {self.verb()} from {was} to {gets}"
        )

    def verb(self) -> str:
        old, new = self.job.placement, self.plan.placements[self.job.id]
        assert old is not None
        if old.gpu_type != new.gpu_type or old.gpus == new.gpus:
            return "moves"
        return "grows" if new.gpus > old.gpus else "shrinks"

    def lacks_beside_gpus(self, cpus: float, memory_gib: float) -> bool:
        """Whether the job asks for that, and no node of its types has as much free beside the GPUs it needs."""
        asked, ledger = self.job.spec.resources, Ledger.of(self.round.cluster, self.plan.placements)
        room = [ledger.free(node.id) for t in self.types for node in self.round.cluster.of_type(t)]
        asks = asked.cpus_per_gpu or 0.0, asked.memory_gib_per_gpu or 0.0
        return (cpus, memory_gib) == asks and not any(
            free.gpus >= 1 and free.cpus >= cpus and free.memory_gib >= memory_gib for free in room
        )

    def order(self) -> list[str]:
        assert self.plan.order is not None
        return [self.round.jobs[i].id for i in self.plan.order.tolist()]

    def ahead(self) -> list[str]:
        order = self.order()
        return order[: order.index(self.job.id)]

    def behind(self) -> list[JobView]:
        after = set(self.order()) - {*self.ahead(), self.job.id}
        return [view for view in self.round.jobs if view.id in after]

    def option(self, name: str) -> int:
        assert self.plan.configurations is not None
        return self.plan.configurations.names.index(name)

    def beside_pinned(self, gpu_type: str) -> int:
        """Return the GPUs that nobody holds, or that jobs hold which may be stopped."""
        placements = self.plan.placements
        pinned = [placements[v.id] for v in self.round.jobs if v.id in placements and not v.spec.preemptible]
        return self.capacity[gpu_type] - sum(p.gpus for p in pinned if p.gpu_type == gpu_type)

    def preferred(self) -> int:
        """Count the jobs whose priority on some GPU type is above this one's."""
        priority = self.plan.figures["priority"]
        return int((priority > priority[self.i]).any(axis=1).sum())

    def planned(self, gpu_type: str) -> float:
        """Return the planned rounds on a GPU type."""
        return float(self.plan.figures["rounds"][self.i][self.round.cluster.gpu_types.index(gpu_type)])

    def price(self, column: int) -> float:
        assert self.plan.configurations is not None
        c = self.plan.configurations[column]
        return self.plan.prices.get(c.gpu_type, 0.0) * c.gpus


def near(text: str, value: float) -> bool:
    return float(text) == pytest.approx(value, rel=6e-3, abs=6e-3)


def listed(text: str) -> dict[str, float]:
    """Read numbers by type, such as "2 a, 3 b"."""
    return {part.split()[1]: float(part.split()[0]) for part in text.split(", ")}


def outbid(t: Truth, found: re.Match[str]) -> bool:
    column = t.option(found[1])
    gains = t.plan.gains[t.job.id]
    return gains[column] == gains.max() and near(found[2], gains[column]) and near(found[3], t.price(column))


def gavel_line(t: Truth, found: re.Match[str]) -> bool:
    column = t.round.cluster.gpu_types.index(found[1])
    share, had = (t.plan.figures[name][:, column] for name in ("share", "received_s"))
    mine = share[t.i] / had[t.i]
    others = t.plan.figures["priority"][:, column]
    return (
        0 <= float(found[2]) <= 1.001
        and near(found[2], share[t.i])
        and float(found[3]) == pytest.approx(had[t.i], rel=1e-3)
        and float(found[4]) == pytest.approx(mine, rel=1e-2)
        and int(found[5]) == int((others > mine).sum())
    )


def option_line(t: Truth, found: re.Match[str]) -> bool:
    """Check a configuration: its goodput against the round's, its verdict against limits, gains and prices."""
    if found[1] in t.round.cluster.gpu_types:  # a type on which no configuration runs
        configurations = t.plan.configurations
        assert configurations is not None
        rates = replace(t.round, jobs=(t.job,)).goodput(configurations)[0]
        return bool((rates[configurations.columns_of[found[1]]] <= 0).all())
    column, configurations = t.option(found[1]), t.plan.configurations
    assert configurations is not None
    goodput = replace(t.round, jobs=(t.job,)).goodput(configurations)[0]
    chosen = configurations.index(t.plan.placements.get(t.job.id))
    times = re.match(rf"({NUMBER}) (x|samples/s); (.*)", found[2])
    assert times is not None, found[2]
    over = goodput[chosen] if times[2] == "x" else 1.0
    if not near(times[1], goodput[column] / over) and float(times[1]) != pytest.approx(goodput[column], rel=1e-3):
        return False
    gains = t.plan.gains[t.job.id]
    now = gains[chosen] if chosen >= 0 else 0.0
    now = now if np.isfinite(now) else 0.0  # one that is not decided about
    more = gains[column] - now
    dearer = t.price(column) - (t.price(chosen) if chosen >= 0 else 0.0)
    verdict, resources = times[3], t.job.spec.resources
    gpus = configurations[column].gpus
    spent = re.match(rf"worth ({NUMBER}) more to it, but (?:its GPUs are worth ({NUMBER}) more|no plan)", verdict)
    if spent is not None:
        return near(spent[1], more) and (near(spent[2], dearer) and dearer >= more if spent[2] else dearer < more)
    if verdict in ("no better for it", "worth no more to the objective than leaving the job out") or (
        verdict.startswith("better")
    ):
        return bool(more <= 0)
    if verdict.startswith("more than its max_gpus"):
        return gpus > resources.max_gpus and verdict.endswith(str(resources.max_gpus))
    if verdict.startswith("less than its min_gpus"):
        return gpus < resources.min_gpus and verdict.endswith(str(resources.min_gpus))
    if verdict.startswith("the job is rigid"):
        return gpus != resources.gpus and f" {resources.gpus} GPU" in verdict
    if verdict.startswith("the job does not run on"):
        return configurations[column].gpu_type not in t.types
    if verdict.startswith(
        ("more than twice", "more than 4 times", "more than the 4 replicas", "nothing is measured")
    ):
        return not np.isfinite(gains[column])
    if verdict == "no idle nodes have the CPUs and the memory for that":
        return t.lacks_beside_gpus(resources.cpus_per_gpu or 0.0, resources.memory_gib_per_gpu or 0.0)
    return verdict in ("a count made for other jobs", "the job is not preemptible and keeps what it has") or (
        verdict.startswith("not a number of whole replicas")
    )


def waiting_ahead(t: Truth, found: re.Match[str]) -> bool:
    ahead = t.ahead()
    return [int(found[1]), int(found[2])] == [len(ahead), sum(id not in t.plan.placements for id in ahead)]


def rho(t: Truth, found: re.Match[str]) -> bool:
    all_rho = finish_time_fairness(t.round.columns, t.round.now, sum(t.capacity.values()))
    return (
        float(found[1]) == pytest.approx(all_rho[t.i], rel=1e-2)
        and int(found[2]) == int((all_rho > all_rho[t.i]).sum())
        and int(found[3]) == len(t.round.jobs)
    )


def coadapt_move(t: Truth, found: re.Match[str]) -> bool:
    assert isinstance(t.policy, CoadaptPolicy)
    lasts_s = (t.policy.options.horizon_s + t.policy.options.horizon_growth * t.job.age_s) / (t.job.restarts + 1)
    return near(found[1], t.job.restart_cost_s) and float(found[2]) == pytest.approx(lasts_s, rel=1e-3)


def pollux_move(t: Truth, found: re.Match[str]) -> bool:
    cost_s = t.job.restart_cost_s
    return near(found[1], max(t.job.age_s - t.job.restarts * cost_s, 0) / (t.job.age_s + cost_s))


def pollux_limits(t: Truth, found: re.Match[str]) -> bool:
    resources, least, most = t.job.spec.resources, int(found[2]), int(found[3])
    inside = t.needs <= least <= most <= (resources.gpus or resources.max_gpus)
    placement = t.plan.placements.get(t.job.id)
    fits = placement is None or placement.gpu_type != found[1] or least <= placement.gpus <= most
    return found[1] in t.types and inside and (fits or not t.job.spec.preemptible)


UNITS_S = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "s": 1.0}
SOURCES = {
    "from measured speed": ExpectedSource.MEASURED_SPEED,
    "from earlier runs": ExpectedSource.EARLIER_RUNS,
    "told by the trace": ExpectedSource.TRACE,
    "as such work usually takes": ExpectedSource.ASSUMED,
}


def expectation(t: Truth, found: re.Match[str]) -> bool:
    """Check what a job still needs, its band and source, and that no job known to be shorter is behind it."""
    mean, _, low, high, source = found.groups()
    e, size = t.job.expected, UNITS_S[found[2]]
    low, high = low or mean, high or mean
    figures = [(mean, e.mean_s), (low, e.low_s), (high, e.high_s)]
    right = all(float(text) == pytest.approx(seconds / size, rel=0.06) for text, seconds in figures)
    free = not found[0].startswith("The ") or not t.job.spec.preemptible  # its place is not that of its length
    ordered = free or all((v.remaining_s or np.inf) >= e.mean_s for v in t.behind())
    return right and ordered and SOURCES[source] is e.source


def slack(t: Truth, found: re.Match[str]) -> bool:
    """Check the slack: to the next deadline that can be met, less what the job still needs."""
    assert t.job.rewards is not None
    needs_s = t.job.remaining_s or 0.0
    by_s = t.job.submitted_s + t.job.rewards.next_s(t.round.now + needs_s - t.job.submitted_s)
    return float(found[1]) == pytest.approx(by_s - t.round.now - needs_s, abs=0.6)


def gpu_time(t: Truth, found: re.Match[str]) -> bool:
    """Check GPUs times what is left, and that no job known to have less to do is behind it."""
    left_s = float(found[2]) * UNITS_S[found[3]]
    hours = t.needs * left_s / 3600
    return int(found[1]) == t.needs and float(found[4]) == pytest.approx(hours, rel=0.06, abs=0.01)


CHECKS: list[tuple[str, Callable[[Truth, re.Match[str]], bool]]] = [
    (r"It waits for its turn (?:on the guarantee of its team, in order of submission|by the rule of the policy)\.",
     lambda t, m: t.job.id not in t.plan.placements),
    (r"It runs on the guarantee of its team(?: (\S+))?\.",
     lambda t, m: t.job.id in t.plan.placements and t.job.id not in t.plan.borrowed),
    (r"It borrows GPUs that teams leave idle\. .*",
     lambda t, m: t.job.id in t.plan.placements and t.job.id in t.plan.borrowed),
    (r"(\d+) GPUs? of (\S+) are idle, and are kept for the guarantees of teams\.",
     lambda t, m: t.free[m[2]] == int(m[1]) >= t.needs),
    (r"Its team (\S+) is guaranteed fewer than (\d+) GPUs? of each type\.",
     lambda t, m: int(m[2]) == t.needs),
    (r"It needs (\d+) GPUs?; free after this round: (.*)\.",
     lambda t, m: int(m[1]) == t.needs and listed(m[2]) == {
         k: v for k, v in t.free.items() if t.job.spec.resources.gpu_types is None or k in t.types}),
    (r"Free after this round: (.*)\.",
     lambda t, m: listed(m[1]) == {
         k: v for k, v in t.free.items() if t.job.spec.resources.gpu_types is None or k in t.types}),
    (r"It is number (\d+) of (\d+) in the policy's order\.",
     lambda t, m: int(m[1]) == len(t.ahead()) + 1 and int(m[2]) == len(t.round.jobs)),
    (r"Jobs before it in the order: (\d+), of which (\d+) wait\.", waiting_ahead),
    (r"It needs (\d+) GPUs? of one type; at most (\d+) of those it can use are free\.",
     lambda t, m: int(m[1]) == t.needs > int(m[2]) and int(m[2]) in t.free.values()),
    (r"It needs (\d+) GPUs?; at most (\d+) of a type it can use are free\.",
     lambda t, m: int(m[1]) == t.needs > int(m[2]) and int(m[2]) in t.free.values()),
    (r"It needs (\d+) GPUs? of one type; the cluster has at most (\d+)\.",
     lambda t, m: int(m[1]) == t.needs > int(m[2]) == max(t.capacity[k] for k in t.types)),
    (r"It needs (\d+) GPUs? on as few nodes as can be; (\d+) of one type are free, but not together\.",
     lambda t, m: int(m[1]) == t.needs <= int(m[2]) and int(m[2]) in t.free.values()),
    (r"It runs on (.+) only; the cluster has (.+)\.",
     lambda t, m: not t.types and m[2] == ", ".join(t.capacity) and not set(m[1].split(" or ")) & set(t.capacity)),
    (r"No GPU type of the cluster can run it; there is (.+)\.",
     lambda t, m: not t.types and m[1] == ", ".join(t.capacity)),
    (r"It cannot run on (\d+) GPUs? of (.+)\.", lambda t, m: int(m[1]) == t.needs and t.job.rates is not None),
    (r"No number of GPUs it accepts \((\d+) to (\d+)\) is a multiple of (\d+), the GPUs of one replica\.",
     lambda t, m: not any(n % int(m[3]) == 0 for n in range(int(m[1]), int(m[2]) + 1)) and int(m[1]) == t.needs),
    (rf"Its best option, (.+), would add ({NUMBER}) to the objective; "
     rf"its GPUs are worth ({NUMBER}) to other jobs\.",
     outbid),
    (r"No configuration of the cluster is within its limits: .*",
     lambda t, m: not np.isfinite(t.plan.gains[t.job.id]).any()),
    (r"Once it runs it may not be stopped; jobs that must keep their GPUs leave it no room\.",
     lambda t, m: not t.job.spec.preemptible and all(t.beside_pinned(k) < block(t.needs) for k in t.types)),
    (rf"Its best option, (.+), adds ({NUMBER}) to the objective; leaving it out adds 0\.",
     lambda t, m: near(m[2], t.plan.gains[t.job.id].max()) and float(m[2]) <= 0),
    (r"Its share of GPU time is not worked out yet; .*",
     lambda t, m: bool(np.isnan(t.plan.figures["share"][t.i]).any())),
    (r"Jobs with a higher priority on a GPU type it can use: (\d+)\.",
     lambda t, m: int(m[1]) == t.preferred()),
    (rf"On (.+) its share of time is ({NUMBER}), and ({NUMBER}) s count as served: "
     rf"its priority is ({NUMBER}) per s, and (\d+) jobs have a higher one\.", gavel_line),
    (r"The search found no better plan in which it has GPUs\.", lambda t, m: any(
        t.free[k] >= t.needs for k in t.types)),
    (r"On (.+) it may have (\d+) to (\d+) GPUs this round\.", pollux_limits),
    (r"Nothing is known of its speed yet, so it is taken to scale perfectly\.", lambda t, m: t.job.model is None),
    (rf"A move pauses it, so other GPUs count ({NUMBER}) of their speedup\.", pollux_move),
    (rf"A move pauses it for ({NUMBER}) s of the ({NUMBER}) s that it is taken to last.*\.", coadapt_move),
    (rf"A move pauses training, so other GPUs count ({NUMBER}) of their goodput\.",
     lambda t, m: near(m[1], restart_factors([t.job])[0])),
    (r"Price of one GPU this round, in units of the objective: (.*)\.",
     lambda t, m: all(near(part.split()[1], t.plan.prices[part.split()[0]]) for part in m[1].split(", "))),
    (r"GPUs of higher goodput (?:than it has|if it had them):", lambda t, m: True),
    (r"On other GPU types, at best:", lambda t, m: True),
    (r"No configuration of the cluster would give it a higher goodput\.", lambda t, m: True),
    (r"  ([^:]+): (.*)", option_line),
    (rf"{UNKNOWN_LENGTH}, so it comes after jobs of known length\.",
     lambda t, m: not any(v.expected.known for v in t.behind())),
    (rf"Priority: (\d+) GPUs? x ({NUMBER}) (d|h|min|s) = ({NUMBER}) GPU-hours; the least comes first\.", gpu_time),
    (r"Its use of GPUs is not known yet, so it shares none\.", lambda t, m: not t.job.usage),
    (r"It waits for a node that measures new jobs; least GPUs come first\.",
     lambda t, m: t.job.placement is None and t.job.attained_gpu_s < 200.0 * t.needs),
    (rf"Its finish-time fairness is ({NUMBER}), and (\d+) of (\d+) jobs are worse off\.", rho),
    (r"The jobs that are worst off run\.", lambda t, m: bool(  # among those that may be stopped
        t.round.columns.priority is not None or (np.diff([
            t.plan.figures["rho"][i] for i in t.plan.order if t.round.columns.preemptible[i]]) <= 0).all())),
    (rf"Its dominant share is ({NUMBER}) of the cluster's (?:GPUs|CPUs|memory); the jobs of the smallest run "
     r"first\.",
     lambda t, m: float(m[1]) == pytest.approx(t.plan.figures["dominant_share"][t.i], rel=1e-2)),
    (rf"Its score by fit and shortness is ({NUMBER}); the jobs of the highest run first\.",
     lambda t, m: float(m[1]) == pytest.approx(t.plan.figures["score"][t.i], rel=1e-2)),
    (r"GPUs are first offered to the (\d+) jobs that are worst off; it is (not one|one) of them\.",
     lambda t, m: int(m[1]) == max(int(np.ceil(0.2 * len(t.round.jobs))), 1)),
    (rf"Its lease on its GPUs runs for ({NUMBER}) s more\.",
     lambda t, m: 0 < float(m[1]) <= 1200 and t.job.placement is not None),
    (r"The plan gives it (.+) of the window's (\d+) rounds, this one included\.", lambda t, m: all(
        near(part.split(" on ")[0], t.planned(part.split(" on ")[1])) for part in m[1].split(" and "))),
    (r"The plan gives it no more rounds in this window; .*",
     lambda t, m: bool((t.plan.figures["rounds"][t.i] < 1e-3).all())),
    (rf"Its weight is ({NUMBER}); 1 is that of a job that is not behind its fair share\.",
     lambda t, m: float(m[1]) == pytest.approx(t.plan.figures["weight"][t.i], rel=1e-3) and float(m[1]) >= 0.99),
    (r"Jobs are served in the order in which they were submitted\.",
     lambda t, m: t.order() == sorted(t.order(), key=lambda id: next(
         (v.submitted_s, n) for n, v in enumerate(t.round.jobs) if v.id == id))),
    (rf"It asks for (?:({NUMBER}) CPUs)?(?: and )?(?:({NUMBER}) GiB of memory)? beside each GPU; "
     r"(?:free GPUs|idle nodes) have less than that\.",
     lambda t, m: t.lacks_beside_gpus(float(m[1] or 0), float(m[2] or 0))),
    (r"Nothing that runs is stopped, and no waiting job overtakes another that could run\.",
     lambda t, m: all(v.id in t.plan.placements for v in t.round.jobs if v.placement is not None)),
    (r"Jobs that run may be stopped for those before them\.", lambda t, m: t.policy.traits.preempts),
    (rf"{BY_LENGTH} ({UNKNOWN_LENGTH}, so it comes last\.)",
     lambda t, m: t.job.remaining_s is None and (not t.job.spec.preemptible or not any(
         v.expected.known for v in t.behind()))),
    (rf"{BY_LENGTH} {EXPECTED}", expectation),
    (EXPECTED, expectation),
    (rf"{UNKNOWN_LENGTH}, so it is taken to need as long as it has had(?:, and a round at least)?\.",
     lambda t, m: t.job.remaining_s is None),
    (rf"The jobs of the lowest level run first\. It has had ({NUMBER}) GPU-seconds: level (\d) of 0 to 1\.",
     lambda t, m: float(m[1]) == pytest.approx(t.job.attained_gpu_s, abs=0.51)
     and int(m[2]) == int(t.job.attained_gpu_s >= 18_000)),
    (r"It has no deadline that it can meet(?:: it comes after those whose slack runs out|, and comes after those "
     r"that have)\.", lambda t, m: np.isinf(t.plan.figures["slack_s"][t.i])),
    (rf"Its slack is ({NUMBER}) s(?:: it is served first, as that runs out|: it comes last, as it can wait|, and "
     r"least slack is served first)\.", slack),
    (r"It is measured first, before jobs without a deadline: nobody knows how long it takes\.",
     lambda t, m: not t.job.expected.known and t.job.attained_gpu_s < 300 * t.needs),
    (r"It has no deadline: it is served after jobs that must run now, by the GPU-time that is left\.",
     lambda t, m: t.job.rewards is None),
    (r"It is best effort now: it can meet no deadline, or others need the GPUs for theirs\.",
     lambda t, m: t.job.rewards is not None and np.isinf(t.plan.figures["due_s"][t.i])),
    (rf"Its deadline is in ({NUMBER}) s, and it could wait for ({NUMBER}) s\.",
     lambda t, m: float(m[1]) == pytest.approx(t.plan.figures["due_s"][t.i] - t.round.now, abs=0.6)),
    (rf"It is planned to have ended within ({NUMBER}) s\.",
     lambda t, m: float(m[1]) == pytest.approx(t.plan.figures["planned_within_s"][t.i], abs=0.6)),
    (r"It can meet no deadline, or has none: it takes what jobs with one leave, and is stopped for them\.",
     lambda t, m: np.isnan(t.plan.figures["starts_in_s"][t.i])),
    (r"It runs, and is not stopped\.", lambda t, m: t.job.placement is not None),
    (rf"It is worth most if it starts in ({NUMBER}) s, by the plan for all deadlines\.",
     lambda t, m: float(m[1]) == pytest.approx(t.plan.figures["starts_in_s"][t.i], abs=0.6)
     and t.job.rewards is not None),
    (rf"It needs ({NUMBER}) GPU-hours more; jobs that need least get their fewest GPUs first\.",
     lambda t, m: float(m[1]) * 3600 == pytest.approx(t.plan.figures["gpu_s"][t.i], rel=1e-2)),
    (rf"Each GPU of its next size would save it ({NUMBER}) s; the largest savings come first\.",
     lambda t, m: float(m[1]) == pytest.approx(t.plan.figures["gain_s"][t.i], rel=1e-2)
     and t.job.model is not None),
    (rf"It has (?:no|a) deadline and comes (?:after|before) jobs that have (?:one|none)\. "
     rf"(?:{EXPECTED}|{UNKNOWN_LENGTH}, so it comes last of its kind\.)",
     lambda t, m: ("no deadline" in m[0]) is (t.job.rewards is None)),
    (rf"{UNKNOWN_LENGTH}, so it (?:comes last of its kind|borrows only if it may be stopped|is measured first|"
     r"is taken to need (?:nothing|longest))\.",
     lambda t, m: t.job.remaining_s is None),
    (r"note: .*", lambda t, m: m[0].removeprefix("note: ") in [note.text for note in t.plan.notes]),
]  # fmt: skip


def check(policy: Policy, round: Round, plan: Plan) -> list[Explanation]:
    """Check every decision and every sentence about every job of a round. Return the explanations."""
    ids = [view.id for view in round.jobs]
    assert list(plan.decisions) == ids
    found = []
    for id in ids:
        decision = plan.decisions[id]
        assert isinstance(decision, Placed) == (id in plan.placements)
        if isinstance(decision, Placed):
            assert decision.placement is plan.placements[id]
        explanation = policy.explain(id, round, plan)
        truth = Truth(id, round, plan, policy)
        assert truth.headline(explanation.sentences[0]), explanation.sentences
        for sentence in explanation.sentences[1:]:
            matches = [(m, test) for pattern, test in CHECKS if (m := re.fullmatch(pattern, sentence))]
            assert matches, f"nobody checks {sentence!r}"
            assert any(test(truth, m) for m, test in matches), f"{id}: {sentence!r} is not so"
        told = json.loads(json.dumps(explanation.to_dict()))
        assert told["decision"] == type(decision).__name__.lower()
        if isinstance(decision, Waiting):
            assert told["reason"] in list(WaitReason)
            assert decision.detail in told["lines"]
        found.append(explanation)
    return found


# --- any round -------------------------------------------------------------------------------------------------


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """Draw jobs of any kind on two GPU types, some beyond what the cluster has."""
    views = []
    for n in range(draw(st.integers(1, 6))):
        about: dict[str, object] = {
            "submitted_s": float(draw(st.integers(0, 5))),
            "age_s": float(draw(st.sampled_from([0, 60, 5000]))),
            "attained_gpu_s": float(draw(st.sampled_from([0, 100, 20_000]))),
            "expected": draw(st.sampled_from(LENGTHS)),
            "restarts": draw(st.integers(0, 3)),
            "preemptible": draw(st.integers(0, 4)) > 0,
            "gpu_types": draw(st.sampled_from([None, None, ["a"], ["b"], ["c"]])),
            "largest_gpus": {},
        }
        known = draw(st.booleans())
        if known:
            about["model"] = model({"a": 100.0, "b": 300.0}, link=0.01)
        if draw(st.booleans()):
            views.append(rigid(f"j{n}", draw(st.sampled_from([1, 2, 3, 4, 8, 64])), known=known, **about))
        else:
            least = draw(st.integers(1, 3))
            views.append(
                job(f"j{n}", known=known, min_gpus=least, max_gpus=least + draw(st.integers(0, 8)), **about)
            )
    return Round(6000.0, 60.0, cluster("2x a:4, 1x b:4"), views)


@pytest.mark.parametrize("name", policy_names())
@settings(max_examples=25, deadline=None, derandomize=True)
@given(first=rounds())
def test_whatever_the_round_every_claim_about_every_job_is_true_of_it(name: str, first: Round) -> None:
    policy = made(name)
    plan = policy.plan(first)
    check(policy, first, plan)
    newcomers = [rigid("n1", 4, submitted_s=1.0, age_s=0.0), rigid("n2", 2, expected=left(10.0), submitted_s=9.0)]
    jobs = after(list(first.jobs), plan)
    later = Round(6060.0, 60.0, first.cluster, [*jobs, *newcomers])
    check(policy, later, policy.plan(later))
    check(policy, first, plan)  # what is said of a round stays so after the next


# --- states that a user meets ----------------------------------------------------------------------------------


def explained(policy: str, where: str, *jobs: JobView, id: str = "x") -> Explanation:
    made_policy, round = made(policy), Round(1000.0, 60.0, cluster(where), list(jobs))
    plan = made_policy.plan(round)
    return next(found for found in check(made_policy, round, plan) if found.job_id == id)


@pytest.mark.parametrize("policy", policy_names())
def test_a_job_for_a_gpu_type_that_is_not_there_is_told_so(policy: str) -> None:
    found = explained(policy, "1x a:4", rigid("x", gpu_types=["h"]))
    assert found.to_dict()["reason"] == WaitReason.NO_GPU_TYPE


@pytest.mark.parametrize("policy", policy_names())
def test_a_job_that_is_larger_than_the_cluster_is_told_so(policy: str) -> None:
    found = explained(policy, "1x a:4", rigid("x", 16))
    assert found.to_dict()["reason"] == WaitReason.TOO_LARGE


@pytest.mark.parametrize("asked", [{"cpus_per_gpu": 9.0}, {"memory_gib_per_gpu": 65.0}])
@pytest.mark.parametrize("policy", policy_names())
def test_a_job_that_asks_for_more_cpus_or_memory_than_there_are_is_told_so_and_keeps_no_gpus_idle(
    policy: str, asked: dict[str, float]
) -> None:
    about = {"known": policy in ("sia", "coadapt", "pollux"), "min_gpus": 2, "max_gpus": 2}
    jobs = [job("x", **about, **asked), *(job(id, submitted_s=1.0, **about) for id in "ab")]
    assert explained(policy, "1x a:4", *jobs[:2]).to_dict()["reason"] == WaitReason.NO_CPUS_OR_MEMORY
    round = Round(1000.0, 60.0, cluster("1x a:4"), jobs)
    assert made(policy).plan(round).placements.keys() == {"a", "b"}


@pytest.mark.parametrize("policy", ["fifo", "las", "sia", "coadapt"])
def test_a_job_whose_cpus_another_has_is_told_so(policy: str) -> None:
    about = {"known": policy in ("sia", "coadapt"), "min_gpus": 1, "max_gpus": 1, "preemptible": False}
    runs = job("w", placement=Placement("a", (NodeShare("a-000", 1, 6.0),)), cpus_per_gpu=6.0, **about)
    found = explained(policy, "1x a:4", runs, job("x", submitted_s=9.0, cpus_per_gpu=3.0, **about))
    assert found.to_dict()["reason"] == WaitReason.NO_CPUS_OR_MEMORY


@pytest.mark.parametrize("policy", ["sia", "coadapt", "pollux"])
def test_a_job_that_no_cluster_could_run_is_refused(policy: str) -> None:
    found = explained(policy, "1x a:4", job("x", min_gpus=4, max_gpus=5, gpus_per_replica=3))
    assert isinstance(found.decision, Refused)
    assert "(4 to 5) is a multiple of 3" in found.decision.reason


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_a_queue_tells_who_is_before_a_job_what_is_free_and_what_it_needs(policy: str) -> None:
    runs = rigid("w", 2, placement=on("a", n0=2), submitted_s=0.0, expected=left(1.0))
    queue = [
        rigid("v", 4, submitted_s=1.0, expected=left(2.0)),
        rigid("x", 2, submitted_s=2.0, expected=left(3.0)),
    ]
    found = explained(policy, "1x a:4", runs, *queue)
    assert found.to_dict()["reason"] == WaitReason.BEHIND_OTHERS
    assert found.sentences[1:3] == (
        "Jobs before it in the order: 2, of which 1 wait.",
        "It needs 2 GPUs; free after this round: 2 a.",
    )


def test_what_a_job_needs_is_said_once() -> None:
    found = explained("fifo", "1x a:4", rigid("w", 3, placement=on("a", n0=3), submitted_s=0.0), rigid("x", 2))
    told = [text for text in found.sentences if "needs" in text]
    assert told == ["It needs 2 GPUs of one type; at most 1 of those it can use are free."]
    assert "Free after this round: 1 a." in found.sentences


@pytest.mark.parametrize("policy", ["srtf", "las"])
def test_a_job_that_is_stopped_for_another_is_told_what_it_had(policy: str) -> None:
    runs = rigid("x", 4, placement=on("a", n0=4), attained_gpu_s=1e5, expected=left(1e4))
    found = explained(policy, "1x a:4", runs, rigid("y", 4, expected=left(10.0)))
    assert found.sentences[0] == "x gets nothing this round; it had 4xa."


def test_coadapt_is_explained_by_its_own_rules_and_not_by_sias() -> None:
    view = job("x", model=model({"a": 100.0}), largest_gpus={"a": 1}, placement=on("a", n0=1), age_s=120.0)
    lines = "\n".join(explained("coadapt", "4x a:4", view).sentences)
    assert "grows from 1xa to 4xa" in lines
    assert "more than 4 times the most it has run on so far" in lines
    assert "A move pauses it for 30 s of the 360 s that it is taken to last." in lines
    assert "doubles" not in lines


def test_a_job_is_called_by_its_id_since_several_may_have_one_name() -> None:
    view = rigid("a-2")
    view = replace(view, spec=view.spec.model_copy(update={"name": "a"}))
    policy, first = made("fifo"), Round(now=0.0, length=60.0, cluster=cluster("1x t4:1"), jobs=[view])
    found = policy.explain("a-2", first, policy.plan(first))
    assert found.sentences[0] == "a-2 starts on 1xt4."
    assert found.name == "a"


def test_an_unknown_job_is_named_by_every_policy() -> None:
    round = Round(0.0, 60.0, cluster("1x a:4"), [rigid("x")])
    for name in policy_names():
        policy = made(name)
        with pytest.raises(KeyError, match="'nope' is not in this round"):
            policy.explain("nope", round, policy.plan(round))


def test_a_trait_that_is_neither_true_nor_false_is_refused_in_a_sentence() -> None:
    with pytest.raises(TypeError, match=r"^traits: preempts: 'no' is not accepted, must be True or False$"):
        PolicyTraits(fixed_sizes=True, uses_models=False, preempts="no")


def test_a_policy_class_without_traits_is_refused_in_a_sentence() -> None:
    with pytest.raises(
        TypeError, match=r"'bare' declares no traits; its class needs `traits = PolicyTraits\(...\)`"
    ):
        register("bare")(type("Bare", (), {"Options": SiaOptions}))
    assert "bare" not in policy_names()


def test_a_job_is_told_the_notes_on_it_and_on_no_job_in_particular() -> None:
    notes = [Note("job a asks node n for more", "a"), Note("job ab waits", "ab"), Note("job by job was searched")]
    round = Round(0.0, 60.0, cluster("1x a:4"), [rigid("a"), rigid("ab")])
    told = plain_explanation("a", round, Plan({}, notes=notes)).sentences
    assert [line for line in told if line.startswith("note: ")] == [
        "note: job a asks node n for more",
        "note: job by job was searched",
    ]


def test_a_decision_is_worked_out_only_when_it_is_read() -> None:
    asked: list[int] = []

    def why(i: int) -> Waiting:
        asked.append(i)
        return Waiting(WaitReason.NOT_SAID, "")

    round = Round(0.0, 60.0, cluster("1x a:4"), [rigid(f"j{n}") for n in range(100)])
    decisions = decisions_of(round, {}, why)
    assert len(decisions) == 100
    assert asked == []
    assert decisions["j7"] == Waiting(WaitReason.NOT_SAID, "")
    assert asked == [7]
