"""What a job has measured: kept across runs, and worth a goodput model as soon as its batch size is known."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace

import pytest
from coadapt.core.reports import Habits, ProfileProgress, Progress, Report, StepRow
from coadapt.core.slot import Slot
from coadapt.core.training_config import Adaptivity, TrainingConfig
from coadapt.estimators.goodput import BatchLimits
from coadapt.estimators.measurements import ON_ALL, Measurements, fits_of
from coadapt.executor.batch_choice import choose_batch
from coadapt.executor.protocol.messages import Ready
from coadapt.scheduler.changes.profile_reuse import merged

READY = Ready("net", 32, 1000, 4096, "SGD", False)
ROWS = [StepRow(1, 1, 32, 0, 0.10, 0.0, 20), StepRow(1, 1, 64, 0, 0.18, 0.0, 20)]
REPORT = Report(
    generation=1,
    gpu_type="t4",
    nodes=1,
    replicas=2,
    rows=[StepRow(1, 2, 32, 0, 0.12, 0.02, 10)],
    grad_sqr=0.5,
    grad_var=200.0,
    batch_size=64,
    local_bsz=32,
    accumulation=0,
    lr=0.1,
    gain=1.5,
    progress=Progress(1, 10, 0.1, 50, 3200, 2400.0),
)
MEASURED = Measurements().with_info(READY.info).with_rows("t4", ROWS).with_report(REPORT)


def test_what_is_stored_has_gpu_types_in_the_order_in_which_they_were_measured() -> None:
    def of(types: list[str]) -> Measurements:
        found = Measurements()
        for gpu_type in types:
            found = found.with_rows(gpu_type, ROWS)
        return found

    types = [f"type-{i}" for i in range(8)]
    found = of(types[:2]).completed_by(of(types))
    assert list(json.loads(found.to_json())) == list(found.to_rows()) == [ON_ALL, *types[2:], *types[:2]]


def test_a_model_needs_the_initial_batch_size() -> None:
    alone = Measurements().with_rows("t4", ROWS)
    assert alone.job_model(TrainingConfig(), {"*": 1}) is None
    assert alone.job_model(TrainingConfig(initial_batch_size=32), {"*": 1}) is not None
    assert MEASURED.job_model(TrainingConfig(), {"*": 1}) is not None


def test_steps_beside_a_partner_are_left_out_and_gradients_count() -> None:
    slow = StepRow(1, 1, 64, 0, 9.0, 0.0, 50)
    beside = MEASURED.with_report(replace(REPORT, rows=(slow,), grad_sqr=1.0, grad_var=90.0), alone=False)
    assert beside.profiles == MEASURED.profiles
    assert beside.noise_scale == 90.0


def test_a_report_without_an_estimate_keeps_the_noise_scale_that_was_known() -> None:
    assert MEASURED.noise_scale == 400.0
    assert MEASURED.with_report(replace(REPORT, grad_sqr=None, grad_var=None)).noise_scale == 400.0
    # For a while no signal may rise above the noise; the batch size must not fall back for that.
    assert MEASURED.with_report(replace(REPORT, grad_sqr=0.0, grad_var=90.0)).noise_scale == 400.0


def test_a_loop_is_given_its_own_batches_until_it_was_seen_not_to_count_them() -> None:
    training = TrainingConfig(max_batch_size=512)
    assert limits_of(MEASURED, training).unit == 32
    accumulates = MEASURED.with_report(replace(REPORT, habits=Habits(per_step=4)))
    assert (limits_of(accumulates, training).unit, limits_of(accumulates, training).initial_batch_size) == (
        32,
        128,
    )
    free = MEASURED.with_report(replace(REPORT, habits=Habits(whole_batches=False)))
    assert limits_of(free, training).unit is None
    # A process that starts knows less than those that have trained.
    assert limits_of(accumulates.with_info(READY.info), training).initial_batch_size == 128


def test_a_script_that_steps_twice_per_batch_keeps_its_batch_in_one_pass() -> None:
    twice = MEASURED.with_report(replace(REPORT, habits=Habits(one_pass=True)))
    limits = limits_of(twice, TrainingConfig(max_batch_size=512))
    assert (limits.fixed, limits.accumulation) == (True, False)


def test_statistics_over_a_batch_keep_local_batches_large_as_far_as_the_job_allows() -> None:
    normed = Measurements().with_info(replace(READY, least_local_bsz=16).info)
    assert limits_of(normed, TrainingConfig()).min_local_bsz == 16
    assert limits_of(normed, TrainingConfig(), fewest_replicas=4).min_local_bsz == 8
    assert limits_of(normed, TrainingConfig(min_local_batch_size=32)).min_local_bsz == 32


def test_a_loss_over_whole_batches_gains_nothing_by_more_replicas() -> None:
    whole = MEASURED.with_habits(Habits(undivided=True, least_local_bsz=32))
    limits = limits_of(whole, TrainingConfig(max_batch_size=512))
    assert (limits.min_local_bsz, limits.undivided) == (32, True)
    model = whole.job_model(TrainingConfig(max_batch_size=512), {"t4": 1})
    assert model is not None
    assert choose_batch(model, [Slot("n", "", (0,), "t4")]) is not None
    assert choose_batch(model, [Slot("n", "", (0,), "t4"), Slot("n", "", (1,), "t4")]) is None


def test_a_loop_that_takes_its_batches_by_next_merges_steps_without_passes() -> None:
    by_next = MEASURED.with_habits(Habits(undivided=True))
    group = [Slot("n", "", (i,), "t4") for i in range(4)]
    training = TrainingConfig(max_batch_size=512, max_local_batch_size=4)
    model = by_next.job_model(training, {"t4": 1})
    assert model is not None
    plan = choose_batch(model, group)
    assert plan is not None
    assert (plan.local_bsz, plan.batch_size) == (8, 32 * (plan.accumulation + 1)), (
        "one pass each, whatever the limit"
    )


def test_a_batch_that_cannot_be_divided_and_does_not_fit_runs_on_no_single_gpu() -> None:
    by_next = MEASURED.with_habits(Habits(undivided=True))
    full = by_next.with_profile("t4", ProfileProgress((), (20,)))
    assert full.max_local_bsz("t4", TrainingConfig(max_local_batch_size=16)) == 64, "measured rows count more"
    only = Measurements().with_info(READY.info).with_rows("t4", [StepRow(1, 1, 16, 0, 0.1, 0.0, 5)])
    only = only.with_habits(Habits(undivided=True)).with_profile("t4", ProfileProgress((), (20,)))
    model = only.job_model(TrainingConfig(), {"t4": 1})
    assert model is not None
    assert choose_batch(model, [Slot("n", "", (0,), "t4")]) is None
    assert choose_batch(model, [Slot("n", "", (0,), "t4"), Slot("n", "", (1,), "t4")]) is not None


def test_the_users_largest_local_batch_counts_more_than_a_floor_for_statistics() -> None:
    normed = Measurements().with_info(replace(READY, least_local_bsz=16).info)
    assert limits_of(normed, TrainingConfig(max_local_batch_size=8)).min_local_bsz == 8
    assert limits_of(normed, TrainingConfig(max_local_batch_size={"t4": 64, "a100": 12})).min_local_bsz == 12


def test_a_floor_for_statistics_is_one_of_each_batch_of_the_script() -> None:
    accumulates = Measurements().with_info(replace(READY, least_local_bsz=16).info).with_habits(Habits(per_step=4))
    assert limits_of(accumulates, TrainingConfig(), fewest_replicas=4).min_local_bsz == 8


def limits_of(measured: Measurements, training: TrainingConfig, fewest_replicas: int = 1) -> BatchLimits:
    limits = measured.batch_limits(training, fewest_replicas)
    assert limits is not None
    return limits


def test_what_a_script_does_is_no_habit_of_another_script_with_the_same_model() -> None:
    pairs = MEASURED.with_habits(Habits(per_step=2, one_pass=True, undivided=True, least_local_bsz=32))
    other = merged(None, pairs)
    assert other.profiles.keys() == pairs.profiles.keys()
    assert other.noise_scale is None
    limits = limits_of(other.with_info(READY.info), TrainingConfig(max_batch_size=512))
    assert limits == BatchLimits(32, 512, unit=32)


def test_what_a_script_asks_for_is_known_of_its_profile_run_and_of_runs_of_the_very_same_script() -> None:
    asked = (
        Measurements().with_info(READY.info).with_profile("t4", ProfileProgress(tuple(ROWS), asked_samples=900.0))
    )
    starts = asked.with_info(READY.info)  # its processes say what they are at each start
    assert starts.info is not None
    assert starts.info.asked_samples == 900.0
    again, other = merged(None, asked, asked), merged(None, asked)
    assert again is not None
    assert again.info is not None
    assert again.info.asked_samples == 900.0
    assert other is not None
    assert other.info is not None
    assert other.info.asked_samples is None
    mine = merged(Measurements().with_info(READY.info), asked, asked)
    assert mine is not None
    assert mine.info is not None
    assert mine.info.asked_samples == 900.0


def test_what_a_profile_run_saw_goes_on_to_its_next_process_also_from_one_that_saw_nothing() -> None:
    seen = ProfileProgress((ROWS[0],), asked_samples=900.0)
    assert ProfileProgress.from_json(seen.to_json()) == seen
    assert seen.with_asked(None) == seen
    old = json.dumps({"rows": [], "failed": [], "floor": 1})
    assert ProfileProgress.from_json(old) == ProfileProgress()


def test_measurements_survive_json() -> None:
    again = Measurements.from_json(MEASURED.to_json())
    assert again.to_json() == MEASURED.to_json()
    first, second = (m.job_model(TrainingConfig(max_batch_size=512), {"t4": 1}) for m in (MEASURED, again))
    assert first is not None
    assert second is not None
    assert first.throughput["t4"].params == second.throughput["t4"].params


def test_the_largest_batch_that_ran_is_the_memory_limit_until_a_larger_one_does() -> None:
    model = MEASURED.job_model(TrainingConfig(max_batch_size=512), {"*": 1})
    assert model is not None
    assert model.throughput["t4"].max_local_bsz == 64
    more = MEASURED.with_rows("t4", [StepRow(1, 1, 128, 0, 0.3, 0.0, 5)])
    grown = more.job_model(TrainingConfig(max_batch_size=512), {"*": 1})
    assert grown is not None
    assert grown.throughput["t4"].max_local_bsz == 128


def test_where_memory_ran_out_within_the_users_limit_only_what_was_seen_to_fit_is_used() -> None:
    found = MEASURED.with_profile("t4", ProfileProgress(tuple(ROWS), (128, 96)))
    found = found.with_profile("t4", ProfileProgress(tuple(ROWS), (112,)))
    assert found.out_of_memory == {"t4": 96}
    assert Measurements.from_json(found.to_json()).out_of_memory == found.out_of_memory
    assert found.max_local_bsz("t4", TrainingConfig(max_local_batch_size=512)) == 64
    assert found.max_local_bsz("t4", TrainingConfig(max_local_batch_size={"t4": 80})) == 80
    assert found.max_local_bsz("t4", TrainingConfig()) == 64
    training = TrainingConfig(max_batch_size=512, max_local_batch_size=512)
    model = found.job_model(training, {"*": 1})
    assert model is not None
    slots = [Slot(node, "", (0,), "t4") for node in ("n1", "n2")]
    plan = choose_batch(model, slots)
    assert plan is not None
    assert plan.local_bsz <= 64, "the batch of a running job"


def test_a_batch_that_training_has_no_room_for_is_not_used_again() -> None:
    found = MEASURED.without_room_for("t4", 64)
    assert found.max_local_bsz("t4", TrainingConfig()) == 32
    assert found.max_local_bsz("t4", TrainingConfig(max_local_batch_size=512)) == 32
    assert found.completed_by(MEASURED).max_local_bsz("t4", TrainingConfig()) == 32, "another job's measurements"
    assert found.without_room_for("t4", 32) is found, "nothing smaller was measured"


def test_what_an_earlier_version_stored_is_still_read() -> None:
    rows = {gpu_type: json.loads(text) for gpu_type, text in MEASURED.to_rows().items()}
    on_all = rows.pop(ON_ALL)
    stored = {
        "profiles": {gpu_type: row["profile"] for gpu_type, row in rows.items()},
        "largest_local_bsz": {gpu_type: row["largest_local_bsz"] for gpu_type, row in rows.items()},
        "fits": {gpu_type: row["fit"] for gpu_type, row in rows.items() if "fit" in row},
        **on_all,
    }
    assert Measurements.from_json(json.dumps(stored)).to_json() == MEASURED.to_json()


def test_what_was_sent_shares_the_profiles_of_what_is_known_where_they_are_the_same() -> None:
    training = TrainingConfig(max_batch_size=512)
    known = MEASURED.with_rows("a100", ROWS)
    before = known.job_model(training, {"*": 1})
    sent = pickle.loads(pickle.dumps(known.with_rows("a100", [StepRow(1, 4, 8, 0, 0.5, 0.1, 5)])))
    shared = sent.sharing(known)
    assert shared == sent
    assert shared.profiles["t4"] is known.profiles["t4"]
    assert shared.profiles["a100"] is sent.profiles["a100"]
    assert not shared.same_but_noise(known)
    after = shared.job_model(training, {"*": 1})
    assert before is not None
    assert after is not None
    assert after.throughput["t4"].params == before.throughput["t4"].params, "it is not fitted again"
    assert after.throughput["a100"].params != before.throughput["a100"].params


def test_measurements_that_share_profiles_may_differ_in_noise_alone() -> None:
    noisier = replace(pickle.loads(pickle.dumps(MEASURED)), grad_var=9_000.0)
    assert not noisier.same_but_noise(MEASURED), "its profiles are other objects"
    assert noisier.sharing(MEASURED).same_but_noise(MEASURED)
    assert not replace(MEASURED, out_of_memory={"t4": 64}).same_but_noise(MEASURED)
    assert not MEASURED.with_habits(Habits(per_step=2)).same_but_noise(MEASURED)


def test_a_fixed_batch_size_stays_fixed() -> None:
    training = TrainingConfig(adaptivity=Adaptivity.STRONG_SCALING)
    limits = MEASURED.batch_limits(training)
    assert limits is not None
    assert (limits.initial_batch_size, limits.max_batch_size) == (32, 32)
    assert math.isfinite(MEASURED.noise_scale or math.nan)


def test_measurements_are_equal_by_what_they_say_and_survive_being_sent() -> None:
    one = Measurements().with_rows("t4", [StepRow(1, 1, 8, 0, 0.1, 0.0, 5)])
    same = Measurements().with_rows("t4", [StepRow(1, 1, 8, 0, 0.1, 0.0, 5)])
    other = Measurements().with_rows("t4", [StepRow(1, 1, 8, 0, 0.2, 0.0, 5)])
    assert one == same
    assert one != other
    assert one != Measurements()
    assert one != replace(one, grad_sqr=1.0)
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_fit_by_another_process_is_the_same_and_is_asked_for_once() -> None:
    sent, own = (Measurements().with_info(READY.info).with_rows("t4", ROWS).with_report(REPORT) for _ in range(2))
    asked = json.loads(json.dumps(sent.unfitted()))
    assert list(asked["profiles"]) == ["t4"]
    sent.take_fits(json.loads(json.dumps(fits_of(asked))))
    assert sent.unfitted() == {}
    fitted, alone = (one.job_model(TrainingConfig(), {"t4": 1}) for one in (sent, own))
    assert fitted is not None
    assert alone is not None
    one, other = fitted.throughput["t4"].params.to_json(), alone.throughput["t4"].params.to_json()
    assert one == pytest.approx(other, rel=1e-3, abs=1e-4), "rows are sent as they are stored, which is rounded"
    more = sent.with_rows("t4", [StepRow(1, 2, 64, 0, 0.2, 0.0, 20)])
    assert more.unfitted()["profiles"]["t4"][1] is not None, "the next fit starts from the last one"
    assert Measurements().unfitted() == {}
