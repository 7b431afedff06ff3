"""`sia` and `coadapt` choose GPUs as ever, and hand out CPUs and memory of each node to who gains by them."""

from __future__ import annotations

import pytest
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.plan_check import check_plan
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.placing.ledger import Ledger

from tests.policies.provisioning.test_policies import IMAGE, LANGUAGE, nodes
from tests.support.rounds import job, model

POLICIES = ("sia", "coadapt")
MECHANISMS = ("proportional", "greedy", "tune", "priced", "optimal")


def planned(policy: str, round: Round, **options: object) -> Plan:
    found = make_policy(policy, **options).plan(round)
    check_plan(found, round)
    ledger = Ledger(round.cluster)
    for id, placement in found.placements.items():
        ledger.take(id, placement)  # raises where a node has less
    return found


def jobs_of(count: int) -> Round:
    """Return a round of jobs on 8 V100s: the first one waits for images, the others for nothing."""
    jobs = [
        job(f"j{at}", model=model({"v100": 100.0}), sensitivity=IMAGE if at == 0 else LANGUAGE)
        for at in range(count)
    ]
    return Round(1000.0, 60.0, nodes(), jobs)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_gpus_are_those_without_it_and_nobody_has_less_than_the_share(policy: str, mechanism: str) -> None:
    round = jobs_of(4)
    bare, found = planned(policy, round), planned(policy, round, provisioning=mechanism)
    assert {id: at.by_node for id, at in found.placements.items()} == {
        id: at.by_node for id, at in bare.placements.items()
    }
    assert found.placements
    assert all(speed >= 1 - 1e-9 for speed in found.figures["speed_over_share"].tolist() if speed == speed)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_waits_for_its_input_gets_what_others_leave(policy: str) -> None:
    round = jobs_of(8)  # each has one
    found = planned(policy, round, provisioning="priced")
    share = 3.0 * found.placements["j0"].gpus
    assert sum(one.cpus for one in found.placements["j0"].shares) > share
    told = make_policy(policy, provisioning="priced").explain("j0", round, found)
    assert any("its GPUs' share is" in line for line in told.sentences)
    assert told.facts["speed_over_share"] > 1


@pytest.mark.parametrize("policy", POLICIES)
def test_it_chooses_amounts_only_where_it_is_told_to(policy: str) -> None:
    assert not make_policy(policy).traits.provisions
    assert make_policy(policy, provisioning="tune").traits.provisions
