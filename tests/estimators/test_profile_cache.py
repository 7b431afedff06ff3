"""A model seen before starts with its profiles."""

from __future__ import annotations

import json

import pytest
from coadapt.core.reports import ProfileProgress, StepRow
from coadapt.estimators.measurements import Measurements
from coadapt.estimators.profile import Profile
from coadapt.estimators.profile_cache import ProfileLibrary
from coadapt.scheduler.profile_reuse import merged


def profile(replicas: int = 1, step_time_s: float = 0.2, count: int = 1) -> Profile:
    return Profile.of([StepRow(1, replicas, 8, 0, step_time_s, 0.0, count)])


def test_the_next_job_of_the_same_model_gets_what_was_measured() -> None:
    library = ProfileLibrary()
    library.add("resnet", "t4", profile(), 64)
    library.add("resnet", "t4", profile(replicas=4), 32)
    library.add("resnet", "a100", profile(), 256)
    library.add("bert", "t4", profile(), 8)
    known = library.get("resnet")
    assert set(known) == {"t4", "a100"}
    assert known["t4"].profile.replicas.tolist() == [1, 4]
    assert known["t4"].max_local_bsz == 64
    assert library.get("unseen") == {}


def test_repeated_measurements_are_averaged_by_count() -> None:
    library = ProfileLibrary()
    library.add("resnet", "t4", profile(step_time_s=0.2, count=1), 64)
    library.add("resnet", "t4", profile(step_time_s=0.4, count=3), 64)
    assert library.get("resnet")["t4"].profile.step_time_s.tolist() == pytest.approx([0.35])


def test_the_library_survives_a_restart() -> None:
    library = ProfileLibrary()
    library.add("resnet", "t4", profile(), 64)
    library.add("bert", "a100", profile(replicas=2), 8)
    back = ProfileLibrary.from_json(json.loads(json.dumps(library.to_json())))
    assert back.to_json() == library.to_json()
    assert len(back) == 2


def test_names_must_be_given_and_empty_profiles_change_nothing() -> None:
    library = ProfileLibrary()
    with pytest.raises(ValueError, match="fingerprint"):
        library.add("", "t4", profile(), 64)
    with pytest.raises(ValueError, match="max_local_bsz"):
        library.add("resnet", "t4", profile(), 0)
    library.add("resnet", "t4", Profile.empty(), 64)
    assert library.get("resnet") == {}


def test_what_ran_out_of_memory_goes_with_the_step_times_of_its_gpu_type() -> None:
    row = StepRow(1, 1, 8, 0, 0.2, 0.0, 5)
    earlier = Measurements().with_profile("t4", ProfileProgress((row,), (32,)))
    earlier = earlier.with_profile("a100", ProfileProgress((row,), (512,)))
    own = Measurements().with_rows("t4", [row])
    assert merged(own, earlier).out_of_memory == {"a100": 512}
    assert merged(None, earlier).out_of_memory == earlier.out_of_memory


def test_what_each_of_two_jobs_measured_on_a_gpu_type_is_known_to_the_next() -> None:
    def measured(*rows: StepRow) -> Measurements:
        return Measurements().with_rows("t4", rows)

    alone, four, eight = (StepRow(1, k, 8 * k, 0, 0.1 * k, 0.0, 5) for k in (1, 4, 8))
    slower = StepRow(1, 1, 8, 0, 0.9, 0.0, 5)  # what it measured itself a job trusts more
    both = merged(measured(slower, four), measured(alone, eight))
    assert both.profiles["t4"].replicas.tolist() == [1, 4, 8]
    assert both.profiles["t4"].step_time_s.tolist() == [0.9, 0.4, 0.8]
    assert both.profiles["t4"].count.tolist() == [5, 5, 5]
    assert both.largest_local_bsz == {"t4": 64}


def test_a_batch_that_ran_out_of_memory_is_not_taken_over_from_a_job_that_had_room() -> None:
    row, large = (StepRow(1, 1, m, 0, 0.2, 0.0, 5) for m in (8, 64))
    mine = Measurements().with_profile("t4", ProfileProgress((row,), (32,)))
    both = merged(mine, Measurements().with_rows("t4", [large]))
    assert both.largest_local_bsz == {"t4": 8}
