"""An emulated GPU takes the time a real one would, on average and however slow the laptop is."""

import json

import pytest
from coadapt.estimators.pace import MAX_OWED_STEPS, Pace, gpu_types, part_of_fastest
from coadapt.estimators.throughput import ThroughputParams


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def paced(clock: Clock, time_scale: float = 1.0) -> Pace:
    params = ThroughputParams(alpha_c=0.5, beta_c=0.1, alpha_r=0.2)
    return Pace("test", "t4", params, 64, time_scale, clock, clock.sleep)


def test_no_request_no_pace() -> None:
    assert Pace.from_json(None, "t4") is None


def test_the_environment_names_model_gpu_type_and_scale() -> None:
    def read(scale: float) -> Pace:
        pace = Pace.from_json(json.dumps({"profile": "cifar10", "time_scale": scale}), "t4")
        assert pace is not None
        return pace

    once, tenfold = read(1.0), read(10.0)
    assert once.max_local_bsz >= 1
    assert 0 < once.step_time_s(1, 1, 64, 0) < once.step_time_s(1, 1, 128, 0)
    assert tenfold.step_time_s(1, 1, 64, 0) == pytest.approx(once.step_time_s(1, 1, 64, 0) / 10)
    assert once.sync_time_s(1, 1, 64, 0) == 0
    assert once.sync_time_s(1, 4, 64, 0) > 0


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"emulation.profile: 'gpt9' is unknown; there are .*cifar10"):
        Pace.of("gpt9", "t4")
    with pytest.raises(ValueError, match=r"not measured on GPU type 'h900'; it was on .*t4"):
        Pace.of("cifar10", "h900")
    with pytest.raises(ValueError, match="time_scale: 0"):
        Pace.of("cifar10", "t4", 0)
    assert "t4" in gpu_types("cifar10")


def test_a_fast_step_waits_for_the_gpu() -> None:
    clock = Clock()
    pace, started = paced(clock), clock.now
    clock.now += 0.1
    pace.wait(started, 1, 1, 10, 0)
    assert clock.now == pytest.approx(pace.step_time_s(1, 1, 10, 0))


def test_late_steps_are_made_up_for_so_that_the_mean_is_right() -> None:
    clock = Clock()
    pace = paced(clock)
    step_s = pace.step_time_s(1, 1, 10, 0)
    for i in range(100):
        started = clock.now
        clock.now += step_s * (1.7 if i % 3 == 0 else 0.2)
        pace.wait(started, 1, 1, 10, 0)
    assert clock.now / 100 == pytest.approx(step_s, rel=0.02)


def test_a_long_pause_does_not_make_the_rest_free() -> None:
    clock = Clock()
    pace = paced(clock)
    step_s = pace.step_time_s(1, 1, 10, 0)
    clock.now += 1000 * step_s
    pace.wait(0.0, 1, 1, 10, 0)
    begin = clock.now
    for _ in range(20):
        pace.wait(clock.now, 1, 1, 10, 0)
    assert clock.now - begin == pytest.approx((20 - MAX_OWED_STEPS) * step_s)


def test_the_fastest_measured_type_has_all_of_the_time_and_others_their_part() -> None:
    parts = {t: part_of_fastest("cifar10", t) for t in gpu_types("cifar10")}
    assert max(parts.values()) == 1.0
    assert 0 < parts["t4"] < parts["rtx"] < parts["a100"] == 1.0
    with pytest.raises(ValueError, match="was not measured on GPU type 'h100'"):
        part_of_fastest("cifar10", "h100")
