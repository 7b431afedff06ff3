"""A policy is offered to users once its class is complete."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from coadapt.policies import registry
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobColumns, JobView, Round
from coadapt.policies.contract.traits import PolicyTraits
from coadapt.policies.queueing import QueueingOptions, QueueingPolicy

from tests.support.rounds import cluster, job

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "add-a-policy.md"


def asks(id: str, gpus: int) -> JobView:
    return job(id, gpus=gpus, adaptivity="rigid", known=False)


@pytest.fixture(autouse=True)
def _own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after each test what it registered."""
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))


def test_the_policy_of_the_guide_runs_and_explains_itself() -> None:
    (module,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(module, {"__name__": "coadapt.policies.smallest", "__package__": "coadapt.policies"})
    policy = make_policy("smallest")
    round = Round(0.0, 60.0, cluster("1x t4:4"), [asks("large", 4), asks("small", 1)])
    plan = policy.plan(round)
    assert set(plan.placements) == {"small"}
    told = policy.explain("large", round, plan).sentences
    assert "Jobs that ask for fewer GPUs come first. It asks for 4." in told


def test_a_policy_that_orders_jobs_says_by_its_own_traits_whether_it_stops_them() -> None:
    class Silent(QueueingPolicy):
        Options = QueueingOptions

    with pytest.raises(TypeError, match="policy: 'silent' declares no traits"):
        registry.register("silent")(Silent)


def test_a_class_that_lacks_a_method_is_refused_with_its_name() -> None:
    class Unfinished(QueueingPolicy):
        Options = QueueingOptions
        traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True)

        def key(self, columns: JobColumns) -> np.ndarray:
            return columns.submitted_s

    with pytest.raises(TypeError, match="policy: 'unfinished' must define standing"):
        registry.register("unfinished")(Unfinished)
    assert "unfinished" not in registry.policy_names()
