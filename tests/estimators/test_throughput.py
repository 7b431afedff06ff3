"""A throughput model finds what measurements can tell, invents nothing else, and stays finite."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coadapt.estimators import throughput as module
from coadapt.estimators.profile import Profile
from coadapt.estimators.throughput import (
    LinkPrior,
    ThroughputModel,
    ThroughputParams,
    fit,
    step_time_s,
    throughput,
)
from hypothesis import given, settings
from hypothesis import strategies as st

TRUE = ThroughputParams(
    alpha_c=0.05, beta_c=0.004, kappa=1.5, delta_c=0.1, alpha_r=0.02, rho_r=0.6, alpha_n=0.08, rho_n=0.4,
    delta_n=0.3, eta_n=0.1, omega_n=0.2, gamma=1.6, ragged_c=0.15,
)  # fmt: skip
ALL = [(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (2, 8), (3, 6), (3, 12), (4, 4), (4, 8), (4, 16)]
BATCHES = (4, 6, 8, 16, 27, 32, 64, 128)

params = st.builds(
    ThroughputParams,
    alpha_c=st.floats(1e-6, 1e3), beta_c=st.floats(1e-8, 1e2), kappa=st.floats(1, 8), delta_c=st.floats(0, 2),
    alpha_r=st.sampled_from([0.0]) | st.floats(1e-6, 1e3), rho_r=st.floats(0, 2),
    alpha_n=st.sampled_from([0.0]) | st.floats(1e-6, 1e3), rho_n=st.floats(-0.5, 2), delta_n=st.floats(-0.5, 2),
    eta_n=st.floats(-0.5, 2), omega_n=st.floats(-2, 2), gamma=st.floats(1, 10), ragged_c=st.floats(0, 2),
)  # fmt: skip


def profile_of(
    true: ThroughputParams, shapes: list[tuple[int, int]], batches: Any = BATCHES, s: int = 0
) -> Profile:
    n, k, m = (np.array(x) for x in zip(*[(n, k, m) for n, k in shapes for m in batches], strict=True))
    step = step_time_s(true, n, k, m, s)
    busy = (s + 1) * step_time_s(replace(true, alpha_r=0.0, alpha_n=0.0), n, k, m)
    columns = {"nodes": n, "replicas": k, "local_bsz": m, "accumulation": np.full(len(n), s), "step_time_s": step}
    return Profile.from_columns(
        columns | {"sync_time_s": np.clip(step - busy, 0, step), "count": np.full(len(n), 9)}
    )


def worst(found: ThroughputParams, true: ThroughputParams, shapes: list[tuple[int, int]], batches: Any) -> float:
    n, k, m = (np.array(x) for x in zip(*[(n, k, m) for n, k in shapes for m in batches], strict=True))
    return float(np.max(np.abs(step_time_s(found, n, k, m) / step_time_s(true, n, k, m) - 1)))


def test_fit_recovers_known_parameters() -> None:
    found = fit(profile_of(TRUE, ALL))
    assert worst(found, TRUE, ALL, BATCHES) < 0.02
    assert worst(found, TRUE, [(2, 16), (4, 32), (8, 32)], (12, 48, 96)) < 0.1


def test_fit_sees_through_accumulation() -> None:
    found = fit(profile_of(TRUE, ALL).merge(profile_of(TRUE, ALL, s=3)))
    assert worst(found, TRUE, ALL, BATCHES) < 0.02


def test_a_few_slow_steps_do_not_bend_the_model() -> None:
    clean = profile_of(TRUE, ALL)
    slow = clean.to_json()
    slow["step_time_s"][5] *= 3
    assert worst(fit(Profile.from_json(slow)), TRUE, ALL, BATCHES) < 0.05


@pytest.mark.parametrize("seed", [6, 48])  # of which a search begun elsewhere ends at a constant
def test_a_job_that_tried_hundreds_of_batch_sizes_knows_what_a_sample_costs(seed: int) -> None:
    steep = ThroughputParams(
        alpha_c=0.0273, beta_c=1e-4, kappa=1.3, alpha_r=0.0022, rho_r=0.54, alpha_n=0.00225, delta_n=0.2, gamma=1.2
    )
    shapes = {(1, 1): np.geomspace(32, 4096, 10).astype(int), (2, 16): range(48, 256, 8)}
    shapes |= {(1, k): range(64, 4096 // k, 4) for k in (2, 4, 8)}
    rows = Profile.empty()
    for shape, sizes in sorted(shapes.items()):
        rows = rows.merge(profile_of(steep, [shape], sizes))
    blurred = rows.to_json()
    blur = np.exp(0.1 * np.random.default_rng(seed).normal(size=len(rows)))
    for name in ("step_time_s", "sync_time_s"):
        blurred[name] = (np.array(blurred[name]) * blur).tolist()
    for previous in (None, replace(steep, beta_c=1e-9, kappa=4.0)):
        found = fit(Profile.from_json(blurred), previous)
        assert worst(found, steep, [(1, 1), (1, 2), (1, 4), (1, 8)], (32, 256, 512)) < 0.15


def test_warm_start_agrees_with_cold_start() -> None:
    profile = profile_of(TRUE, ALL)
    cold = fit(profile.select(profile.replicas <= 4))
    assert worst(fit(profile, previous=cold), TRUE, ALL, BATCHES) < 0.02


def test_without_multi_replica_rows_scaling_is_perfect() -> None:
    found = fit(profile_of(TRUE, [(1, 1)]))
    assert found.alpha_r == found.alpha_n == 0.0
    assert throughput(found, 8, 64, 16) == pytest.approx(64 * throughput(found, 1, 1, 16))


def test_without_multi_node_rows_nodes_are_linked_like_one_node_and_a_little_slower() -> None:
    found = fit(profile_of(TRUE, [(1, 1), (1, 2), (1, 4)]))
    assert found.alpha_n == pytest.approx(1.1 * found.alpha_r)
    assert worst(found, TRUE, [(1, 1), (1, 2), (1, 4)], BATCHES) < 0.02


def test_without_single_node_rows_one_node_is_no_slower_than_several() -> None:
    found = fit(profile_of(TRUE, [(1, 1), (2, 2), (4, 4)]))
    assert found.alpha_r == pytest.approx(found.alpha_n)


def test_one_local_batch_size_is_half_constant_half_linear() -> None:
    found = fit(profile_of(TRUE, [(1, 1)], batches=(16,)))
    assert found.alpha_c == pytest.approx(16 * found.beta_c)
    assert step_time_s(found, 1, 1, 16) == pytest.approx(step_time_s(TRUE, 1, 1, 16), rel=1e-6)


def test_links_never_measured_come_from_other_models_on_the_same_gpu_type() -> None:
    other = replace(TRUE, alpha_c=0.2, alpha_r=2 * TRUE.alpha_r, alpha_n=2 * TRUE.alpha_n)
    prior = LinkPrior.of([(other, 20_000_000), (other, 20_000_000)])
    found = fit(profile_of(TRUE, [(1, 1)]), prior=prior, parameters=10_000_000)
    assert found.alpha_n == pytest.approx(TRUE.alpha_n)
    assert LinkPrior.of([(fit(profile_of(TRUE, [(1, 1)])), 1000)]) is None


def test_gradients_are_those_of_the_residuals() -> None:
    profile = profile_of(TRUE, ALL).merge(profile_of(TRUE, ALL, s=2))
    columns = (profile.nodes, profile.replicas, profile.local_bsz, profile.accumulation, profile.densest)
    features = module._Features.of(*(x.astype(float) for x in columns))
    weight, target = np.ones(len(profile)), np.log(profile.step_time_s)
    theta = TRUE.theta
    analytic = module._jacobian(theta, features, weight)
    for i in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[i] += 1e-6
        down[i] -= 1e-6
        numeric = (
            module._residuals(up, features, target, target, weight)
            - module._residuals(down, features, target, target, weight)
        ) / 2e-6
        np.testing.assert_allclose(analytic[:, i], numeric, atol=1e-6, err_msg=module.NAMES[i])


@given(params, st.integers(1, 64), st.integers(1, 8), st.integers(0, 10), st.integers(1, 500))
def test_throughput_is_finite_and_rises_with_the_local_batch(
    p: ThroughputParams, nodes: int, per_node: int, s: int, m: int
) -> None:
    k = nodes * per_node
    values = throughput(p, nodes, k, 4 * m * np.array([1, 2, 4]), s)
    assert np.all(np.isfinite(values))
    assert np.all(values > 0)
    assert np.all(np.diff(values) >= -1e-9 * values[:-1])


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 4), st.integers(1, 4), st.integers(1, 300), st.floats(1e-6, 1e4), st.floats(0, 1)
        ),
        min_size=1, max_size=20,
    )
)  # fmt: skip
def test_any_valid_measurements_give_a_finite_model(rows: list[tuple[int, int, int, float, float]]) -> None:
    n, per_node, m, step, part = (np.array(x) for x in zip(*rows, strict=True))
    profile = Profile.from_columns(
        {
            "nodes": n, "replicas": n * per_node, "local_bsz": m, "accumulation": 0 * n,
            "step_time_s": step, "sync_time_s": step * part, "count": 0 * n + 1,
        }
    )  # fmt: skip
    found = fit(profile)
    times = step_time_s(found, [1, 1, 4, 16], [1, 8, 16, 128], [1, 7, 64, 512], [0, 1, 2, 0])
    assert np.all(np.isfinite(times))
    assert np.all(times > 0)


def test_parameters_survive_json_and_unknown_or_impossible_ones_are_refused() -> None:
    assert ThroughputParams.from_json(json.loads(json.dumps(TRUE.to_json()))) == TRUE
    with pytest.raises(ValueError, match="alpha_x"):
        ThroughputParams.from_json({"alpha_c": 1, "beta_c": 1, "alpha_x": 1})
    with pytest.raises(ValueError, match="beta_c"):
        ThroughputParams.from_json({"alpha_c": 1})
    for bad in ({"alpha_c": 0.0}, {"alpha_c": float("nan")}, {"gamma": 0.5}, {"alpha_r": -1.0}, {"kappa": 0.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            replace(TRUE, **bad)
    with pytest.raises(ValueError, match="max_local_bsz"):
        ThroughputModel(TRUE, 0)
    with pytest.raises(ValueError, match="0 rows"):
        fit(Profile.empty())
