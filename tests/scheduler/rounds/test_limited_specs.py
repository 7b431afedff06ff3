"""A spec that limits narrow leaves no policy a configuration beyond them, and stays as it is within them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec
from coadapt.policies.choosing.eligibility import eligibility
from coadapt.policies.contract.configuration import ConfigurationSet, needs
from coadapt.policies.contract.round import JobView
from coadapt.scheduler.rounds.limited_specs import limited_spec

NODES = Cluster((Node("n1", "a100", 8), Node("n2", "t4", 8), Node("n3", "t4", 8)))


def spec(**fields: Any) -> JobSpec:
    return JobSpec.model_validate({"name": "j", "script": "t.py", **fields})


def counts(found: JobSpec) -> dict[str, set[int]]:
    """Return the GPU counts that a policy may choose, by type."""
    extra, most = needs(NODES, [found])
    configurations = ConfigurationSet(NODES, extra, most)
    allowed = eligibility([JobView("j-1", found)], configurations, np.zeros((1, len(configurations)))).allowed[0]
    chosen = [configurations[k] for k in allowed.nonzero()[0].tolist()]
    return {t: {c.gpus for c in chosen if c.gpu_type == t} for t in NODES.gpu_types}


def test_a_limit_that_a_job_cannot_reach_changes_nothing() -> None:
    one = spec(resources={"max_gpus": 4})
    assert limited_spec(one, {"t4": 4}, NODES.gpu_types) is one
    assert limited_spec(one, {}, NODES.gpu_types) is one


@pytest.mark.parametrize("most", [{"t4": 3}, {"t4": 0}, {"a100": 1, "t4": 6}, {"t4": 2, "a100": 0}])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"resources": {"min_gpus": 2, "max_gpus": 8}},
        {"resources": {"gpus": 2}, "training": {"adaptivity": "rigid"}},
        {"resources": {"gpus_per_replica": 2, "max_gpus": 16}},
        {"script": "", "command": ["a"], "sizes": [1, 2, 4]},
    ],
    ids=["elastic", "at least two", "rigid", "two a replica", "sizes"],
)
def test_no_configuration_is_beyond_a_limit(fields: dict[str, Any], most: dict[str, int]) -> None:
    one = spec(**fields)
    before, after = counts(one), counts(limited_spec(one, most, NODES.gpu_types))
    for gpu_type, some in after.items():
        assert all(gpus <= most.get(gpu_type, 99) for gpus in some)
        within = {gpus for gpus in before[gpu_type] if gpus <= most.get(gpu_type, 99)}
        if one.resources.gpus_per_replica == 1:
            assert {gpus for gpus in within if gpus.bit_count() == 1} <= some, "powers of two stay"
