"""Two jobs on the same GPUs: who is where, and what stays as it was."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.packing.tenants import Tenants
from coadapt.policies.placing.demand import WISH, Demand
from coadapt.policies.placing.ledger import OverCommitted

TWO = Cluster((Node("n0", "t4", 4), Node("n1", "t4", 4)))


def placed(tenants: Tenants, job: str, gpus: int) -> Placement:
    found = tenants.find(gpus, ["t4"])
    assert found is not None
    tenants.take(job, found)
    return found


def test_gpus_are_named_and_a_partner_gets_the_same_ones() -> None:
    tenants = Tenants(TWO)
    first = placed(tenants, "a", 2)
    assert first.shares == (NodeShare("n0", 2, devices=(0, 1)),)
    second = tenants.join("b", "a")
    assert second.devices == first.devices
    assert tenants.held["a"].weight == second.weight == 1.0
    assert (tenants.partner("a"), tenants.partner("b")) == ("b", "a")
    assert not tenants.is_alone("a")
    assert tenants.idle("t4") == 6


def test_who_stays_holds_the_gpus_whole_again() -> None:
    tenants = Tenants(TWO)
    whole = placed(tenants, "a", 2)
    tenants.join("b", "a")
    tenants.follow({"b": tenants.held["b"]})
    assert tenants.held == {"b": whole}
    assert tenants.is_alone("b")


def test_a_third_job_finds_no_room() -> None:
    tenants = Tenants(TWO)
    placed(tenants, "a", 1)
    tenants.join("b", "a")
    with pytest.raises(ValueError, match="job c"):
        tenants.take("c", tenants.held["b"])


def test_placements_without_names_get_some() -> None:
    tenants = Tenants(TWO)
    tenants.follow({"a": Placement("t4", (NodeShare("n0", 2),)), "b": Placement("t4", (NodeShare("n0", 1),))})
    assert tenants.held["a"].devices == {("n0", 0), ("n0", 1)}
    assert tenants.held["b"].devices == {("n0", 2)}


def test_a_job_off_a_node_that_is_gone_is_left_out() -> None:
    tenants = Tenants(TWO)
    tenants.follow({"a": Placement("t4", (NodeShare("n9", 2),))})
    assert dict(tenants.held) == {}


@pytest.mark.parametrize("seed", range(20))
def test_no_gpu_is_ever_given_to_three_or_beyond_its_whole(seed: int) -> None:
    random, tenants = np.random.default_rng(seed), Tenants(TWO)
    for number in range(60):
        held = list(tenants.held)
        alone = [job for job in held if tenants.is_alone(job)]
        what = random.integers(3)
        if what == 0 and held:
            gone = held[random.integers(len(held))]
            tenants.follow({job: at for job, at in tenants.held.items() if job != gone})
        elif what == 1 and alone:
            tenants.join(f"j{number}", alone[random.integers(len(alone))])
        elif (found := tenants.find(int(random.integers(1, 6)), ["t4"])) is not None:
            tenants.take(f"j{number}", found)
        parts: dict[tuple[str, int], list[float]] = {}
        for at in tenants.held.values():
            for device in at.devices:
                parts.setdefault(device, []).append(at.shares[0].share)
        assert all(len(on) <= 2 and sum(on) <= 1.0 for on in parts.values())
        assert tenants.idle("t4") == 8 - len(parts)
        assert all(
            tenants.held[job].shares[0].share == 1.0 for job in tenants.held if tenants.partner(job) is None
        )


def test_a_partner_that_only_wishes_for_cpus_takes_none_and_one_that_must_have_some_is_refused() -> None:
    tenants = Tenants(Cluster((Node("n0", "t4", 2, cpus=3.0),)))
    whole = Placement("t4", (NodeShare("n0", 2, cpus=2.0, devices=(0, 1)),))
    tenants.take("a", whole)
    assert tenants.join("b", "a").shares[0].cpus == 0.0
    tenants.give_back("b")
    with pytest.raises(OverCommitted, match="4 CPUs, of which 1 are free"):
        tenants.join("b", "a", Demand(cpus_per_gpu=2.0))
    assert tenants.held == {"a": whole}


@pytest.mark.parametrize("seed", range(20))
def test_room_that_is_found_can_be_taken_however_jobs_come_share_and_go(seed: int) -> None:
    """Pairs use the CPUs of their GPUs, so that they leave idle GPUs theirs."""
    draw = random.Random(seed)
    cluster = Cluster(tuple(Node(f"n{at}", "t4", 8, cpus=draw.choice((0.5, 8.0, 12.0))) for at in range(2)))
    tenants, there = Tenants(cluster), list[str]()
    for turn in range(200):
        id, gpus = f"j{turn}", draw.choice((1, 1, 2, 4, 8))
        alone = [job for job in there if tenants.is_alone(job)]
        demand = Demand(cpus_per_gpu=2.0) if draw.random() < 0.1 else WISH
        if there and draw.random() < 0.4:
            tenants.give_back(there.pop(draw.randrange(len(there))))
            tenants.follow(dict(tenants.held))
        elif alone and draw.random() < 0.5:
            with suppress(OverCommitted):
                tenants.join(id, draw.choice(alone), demand)
                there.append(id)
        elif (found := tenants.find(gpus, ["t4"], demand)) is not None:
            tenants.take(id, found)
            there.append(id)
        assert set(tenants.held) == set(there)
