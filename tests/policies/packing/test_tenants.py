"""Two jobs on the same GPUs: who is where, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.packing.tenants import Tenants
from coadapt.policies.placing.demand import Demand
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


def test_cpus_that_a_partner_only_wishes_for_it_gets_as_far_as_they_are_free() -> None:
    tenants = Tenants(Cluster((Node("n0", "t4", 2, cpus=3.0),)))
    whole = Placement("t4", (NodeShare("n0", 2, cpus=2.0, devices=(0, 1)),))
    tenants.take("a", whole)
    assert tenants.join("b", "a").shares[0].cpus == 1.0
    tenants.give_back("b")
    with pytest.raises(OverCommitted, match="4 CPUs, of which 1 are free"):
        tenants.join("b", "a", Demand(cpus_per_gpu=2.0))
    assert tenants.held == {"a": whole}
