"""Studies on a shared cluster: what policies are told of them, and what becomes of them and of others."""

from __future__ import annotations

from collections import defaultdict

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.studies.market import SPEEDS, Market, MarketStudy, OtherJob
from coadapt.simulator.studies.pool import START_S
from coadapt.simulator.studies.response import Response
from coadapt.simulator.studies.thesis_rules import ThesisRules
from coadapt.tuning.study_file import from_values

TWO_TYPES = Cluster((Node("a", "a100", 2), Node("v", "v100", 2)))
SPACE = {"lr": {"log": [1e-4, 1.0]}, "gamma": {"uniform": [0.01, 0.9]}}


def a_study(trials: int = 40, **fields: object) -> MarketStudy:
    base = {"name": "r", "job": "r.yaml", "space": SPACE, "metric": "val_acc", "mode": "max", "epochs": 27}
    study = from_values({**base, "trials": trials, "algorithm": {"asha": {"grace": 3}}, **fields})
    return MarketStudy(study, 0.0, Response())


class Watched:
    """A policy that keeps what it was told."""

    def __init__(self) -> None:
        self.policy, self.rounds = ThesisRules(), list[Round]()

    def plan(self, round: Round) -> Plan:
        self.rounds.append(round)
        return self.policy.plan(round)


def test_the_best_trials_of_a_study_are_worth_more_in_the_round_as_they_get_on() -> None:
    watched = Watched()
    outcome = Market(TWO_TYPES, watched, [a_study()]).run()
    worth = defaultdict(set)
    for round in watched.rounds:
        for job in round.jobs:
            told = 1.0 if round.sharing is None else round.sharing.factor.get(job.id, 1.0)
            assert told == job.spec.worth
            worth[job.spec.training.adaptivity].add(told)
    assert len(worth["rigid"]) > 1, "a group that has passed rungs is worth more than a new one"
    assert max(worth["rigid"]) < min(worth["strong-scaling"]) == 1.0, "a target is worth as much as any job"
    assert set(outcome.studies_jct_s) == {"r"}


def test_a_blind_policy_is_told_of_every_gpu_type_what_holds_for_an_a100() -> None:
    for blind in (False, True):
        watched = Watched()
        Market(TWO_TYPES, watched, [a_study()], [OtherJob("o", 0.0, 1, 60.0, 0.5)], blind=blind).run()
        for job in watched.rounds[0].jobs + watched.rounds[-1].jobs:
            on_a100, on_v100 = job.model.goodput.reshape(2, -1)
            assert (on_a100 == on_v100).all() if blind else (on_a100 > on_v100).all()


def test_full_groups_win_the_faster_gpus() -> None:
    study = a_study(trials=400)
    seeing, blind = (
        Market(TWO_TYPES, make_policy("coadapt"), [study], blind=blind).run() for blind in (False, True)
    )
    share = [one.full_gpu_s["a100"] / sum(one.full_gpu_s.values()) for one in (seeing, blind)]
    assert share[0] > share[1]
    assert seeing.makespan_s < blind.makespan_s
    assert seeing.light_on("a100") + seeing.light_on("v100") == pytest.approx(1.0)


def test_other_peoples_jobs_take_as_long_as_their_gpus_allow() -> None:
    slow = Cluster((Node("v", "v100", 2),))
    outcome = Market(slow, ThesisRules(), [], [OtherJob("o", 0.0, 2, 300.0, 0.5)]).run()
    assert outcome.others_jct_s == {"o": pytest.approx(START_S + 600.0)}
    assert outcome.others_gpu_s == pytest.approx(2 * (START_S + 600.0))


def test_a_run_may_end_with_other_peoples_jobs() -> None:
    study = a_study(shrink=1, fuse=False)
    outcome = Market(TWO_TYPES, ThesisRules(), [study], [OtherJob("o", 0.0, 1, 60.0, 0.5)]).run(studies=False)
    assert outcome.studies_jct_s == {}
    assert set(outcome.others_jct_s) == {"o"}


def test_a_v100_is_slower_the_more_a_step_computes() -> None:
    waits, computes = (SPEEDS["v100"].epoch_s(10.0, host_s) for host_s in (10.0, 0.0))
    assert 10.0 < waits < computes
