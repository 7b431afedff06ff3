"""Equation 3.1 for GPU types measured with one replica only, dropped once they are measured with more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.estimators.bootstrap import bootstrap, donor_of, with_bootstrap
from coadapt.estimators.throughput import ThroughputModel, ThroughputParams, throughput

A = ThroughputModel(
    ThroughputParams(0.05, 0.002, kappa=1.4, delta_c=0.1, alpha_r=0.02, alpha_n=0.06, gamma=1.7), 128, 8
)
B = ThroughputModel(ThroughputParams(0.01, 0.005, kappa=2.0), 64, 1)


@pytest.mark.parametrize(("nodes", "replicas"), [(1, 2), (1, 8), (2, 2), (4, 32)])
def test_throughput_follows_equation_3_1(nodes: int, replicas: int) -> None:
    estimated = bootstrap(B, A)
    ratio = throughput(B.params, 1, 1, 64) / throughput(A.params, 1, 1, 64)
    expected = ratio * throughput(A.params, nodes, replicas, 64)
    assert throughput(estimated.params, nodes, replicas, 64) == pytest.approx(expected)


def test_one_replica_keeps_its_own_measurements_and_memory() -> None:
    estimated = bootstrap(B, A)
    assert estimated.max_local_bsz == 64
    for m in (1, 8, 64):
        assert throughput(estimated.params, 1, 1, m) == pytest.approx(throughput(B.params, 1, 1, m))


def test_a_type_with_multi_replica_measurements_is_left_alone() -> None:
    measured = replace(B, max_replicas_measured=2)
    assert with_bootstrap({"a": A, "b": measured})["b"] is measured


def test_nothing_to_bootstrap_from_means_perfect_scaling() -> None:
    models = {"b": B, "c": B}
    assert with_bootstrap(models) == models
    assert donor_of(models) is None


def test_the_donor_is_the_type_measured_most_then_the_first_by_name() -> None:
    assert donor_of({"z": A, "b": B, "y": A}) == "y"
    assert donor_of({"z": replace(A, max_replicas_measured=16), "y": A}) == "z"
