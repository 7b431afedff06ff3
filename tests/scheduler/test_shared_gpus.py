"""Two jobs share a GPU: a partner's coming and going stops nobody, and no GPU is ever promised twice over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from coadapt.core.placement import NodeShare, Placement
from coadapt.core.slot import Slot
from coadapt.executor.protocol.job_events import Running
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.contract.traits import PolicyTraits
from coadapt.scheduler.views.job_views import job_details, job_row, jobs_beside

from tests.support.cycles import World, short

SHARES = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False, shares_gpus=True)


class Sharing:
    """Gives each job the part of GPU 0 of its node that a test says."""

    def __init__(self) -> None:
        self.parts: Mapping[str, float] = {}

    def plan(self, round: Round) -> Plan:
        return Plan(
            {
                view.id: Placement("t4", (NodeShare("t4-000", 1, share=part, devices=(0,)),))
                for view in round.jobs
                if (part := self.parts.get(short(view.id)))
            }
        )


class SharedWorld(World):
    def __init__(self, folder: Path) -> None:
        self.sharing = Sharing()
        super().__init__(folder, "1x t4:1", planner=self.sharing, traits=SHARES)

    def wants(self, **parts: float) -> None:
        """Have the next round give these parts, and play it."""
        self.sharing.parts = parts
        self.cycle.ask_round()
        self.on_go("2")

    def stays(self, name: str) -> None:
        """Let the executor of a job carry out that it stays where it is. It knows its slots as they were."""
        job = self.job(name)
        before = tuple(replace(slot, share=1.0) for slot in job.target)
        self._say(name, Running(job.sequence, before, warm=True, generation=job.generation))

    def slot(self, name: str) -> Slot:
        (slot,) = self.job(name).target
        return slot

    def exceeded(self) -> int:
        """Return the moments of the event log at which jobs held more of a GPU than there is."""
        held, moments = dict[str, float](), 0
        for event in self.store.events(last=10_000):
            if event.job_id is not None and "on" in event.data:
                held[event.job_id] = sum(parts.get("0", 0.0) for parts in event.data["on"].values())
                moments += sum(held.values()) > 1 + 1e-6
        return moments


def test_a_partner_comes_and_goes_and_the_other_job_goes_on_in_the_same_slot(tmp_path: Path) -> None:
    world = SharedWorld(tmp_path)
    world.on_submit("a", "rigid=1", "unprofiled")
    world.on_submit("b", "rigid=1", "unprofiled")
    world.wants(a=1.0)
    world.on_runs("a")
    before = world.job("a")
    world.wants(a=0.5, b=0.5)
    assert (world.slot("a").share, world.slot("b").share) == (0.5, 0.5)
    assert world.executors.sent[-2:] == ["assign a 1xt4", "assign b 1xt4"], "a gives its part up first"
    world.stays("a")
    world.on_runs("b")
    a = world.job("a")
    assert (a.state.restarts, a.moves, a.pauses, a.starts) == (0, 0, 0, before.starts)
    assert (a.group[0].share, a.held[0].share) == (0.5, 0.5), "also where its executor still says 1"
    world.store.close()
    world.open()
    a = world.job("a")
    assert (a.target[0].share, a.group[0].share, a.held[0].share) == (0.5, 0.5, 0.5), "a restart forgets no share"
    world.wants(a=1.0)
    assert world.slot("a").share == 0.5, "b is still there"
    world.on_left("b")
    world.on_go()
    world.stays("a")
    a = world.job("a")
    assert (a.target[0].share, a.group[0].share, a.state.restarts) == (1.0, 1.0, 0)
    assert world.exceeded() == 0


def test_what_is_held_counts_by_its_part_and_each_sees_who_is_beside_it(tmp_path: Path) -> None:
    world = SharedWorld(tmp_path)
    world.on_submit("a", "rigid=1", "unprofiled")
    world.on_submit("b", "rigid=1", "unprofiled")
    world.wants(a=1.0)
    world.on_runs("a")
    world.clock.forward(10.0)
    world.wants(a=0.5, b=0.5)
    world.on_runs("b")
    now = world.clock.steady_s()
    before = world.store.held_time(world.job("a").id).gpu_s(now)
    assert world.store.held_time(world.job("a").id).gpu_s(now + 10) - before == 5.0
    assert world.store.held_time(world.job("b").id).gpu_s(now + 10) == 5.0
    beside = jobs_beside(world.store.holding.values())
    a, b = world.job("a"), world.job("b")
    assert beside == {a.id: [b.id], b.id: [a.id]}
    row = job_row(a, beside=beside[a.id])
    assert (row["gpus"], row["share"], row["beside"]) == (1, 0.5, [b.id])
    assert job_details(b, [], beside=beside[b.id])["beside"] == [a.id]
    texts = [event.data.get("text", "") for event in world.store.events(b.id)]
    assert "is to use 0.5xt4" in texts
    assert any(text.startswith("runs on 0.5xt4") for text in texts)
