"""A profile run measures one local batch size after the other, by the script's own step, and then ends."""

from __future__ import annotations

import os
from typing import Any

import pytest
from coadapt.core.reports import NOTHING_PROFILED, ProfileProgress
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.protocol.messages import PROFILE_JSON, Profiled, Ready, Stop, Trying
from coadapt.executor.training.collective.group import Group, leave_group
from coadapt.executor.training.sessions.membership import Leaving
from coadapt.executor.training.sessions.profile_session import ProfileSession

from tests.support.channels import Executor
from tests.support.ranks import on_ranks
from tests.support.sessions import Script

LIMITS = {"max_batch_size": 16, "min_local_batch_size": 4, "max_local_batch_size": 16}


class Measured:
    """A script that is measured."""

    def __init__(self, samples: int = 64, progress: ProfileProgress = NOTHING_PROFILED, **config: Any) -> None:
        leave_group()  # a profile run makes one of its own
        os.environ[PROFILE_JSON] = progress.to_json()
        self.script, self.executor = Script(samples), Executor()
        training = TrainingConfig.model_validate(LIMITS | config)
        self.session = ProfileSession(self.script.prepared, training, self.executor.channel)

    def run(self, count: int = 3) -> bool:
        """Train as a script does; return whether the run ended it."""
        try:
            self.script.train_all(self.session.epochs(count))
        except Leaving:
            return True
        return False

    @property
    def tried(self) -> list[int]:
        return [event.local_bsz for event in self.executor.heard(Trying)]

    @property
    def measured(self) -> list[int]:
        return [event.row.local_bsz for event in self.executor.heard(Profiled) if event.row is not None]


def test_sizes_grow_within_the_jobs_limits_and_each_is_named_before_it_is_tried() -> None:
    def act(group: Group) -> list[Any]:
        run = Measured()
        (ready,) = run.executor.heard(Ready)
        ended = run.run()
        sizes = sorted({len(batch) for batch in run.script.seen})
        return [ready.initial_batch_size, ended, run.tried, run.measured, sizes, run.session.trying]

    initial, ended, tried, measured, sizes, trying = on_ranks(1, act)[0]
    assert (initial, ended, trying) == (4, True, None)
    assert tried == measured == sizes
    assert (tried[0], tried[-1]) == (4, 16)


def test_epochs_go_on_until_all_is_measured_and_nothing_but_whole_batches_is_given() -> None:
    def act(group: Group) -> list[Any]:
        run = Measured(samples=18)
        return [run.run(count=1), run.measured[-1], {len(batch) for batch in run.script.seen} - set(run.tried)]

    assert on_ranks(1, act)[0] == [True, 16, set()]


def test_a_script_that_iterates_over_another_loader_is_told_so_at_once() -> None:
    def act(group: Group) -> list[str]:
        run = Measured()
        with pytest.raises(RuntimeError) as error:
            list(run.session.epochs(2))  # what it does in its passes has nothing to do with the loader
        return [str(error.value), *map(str, run.tried)]

    (told,) = on_ranks(1, act)[0]
    assert told.startswith("passes of coadapt.epochs took no batch of the loader that prepare returned; ")


def test_a_run_that_another_process_began_goes_on_where_that_was() -> None:
    def act(group: Group) -> list[int]:
        first = Measured()
        first.run()
        rows = [event.row for event in first.executor.heard(Profiled) if event.row is not None]
        done = NOTHING_PROFILED
        for row in rows[:-1]:
            done = done.with_row(row)
        second = Measured(progress=done)
        second.run()
        return [first.tried[-1], *second.tried]

    last, *others = on_ranks(1, act)[0]
    assert others == [last]


def test_sizes_beyond_the_data_are_not_tried() -> None:
    def act(group: Group) -> list[Any]:
        run = Measured(samples=6)
        return [run.run(), max(run.tried), run.tried == run.measured]

    assert on_ranks(1, act)[0] == [True, 6, True]


def test_a_run_that_is_told_to_stop_ends_before_its_next_batch() -> None:
    def act(group: Group) -> list[Any]:
        run = Measured()
        run.executor.send(Stop())
        return [run.run(), run.script.seen]

    assert on_ranks(1, act)[0] == [True, []]


def test_what_the_script_asks_for_is_told_with_each_size() -> None:
    def act(group: Group) -> set[float | None]:
        run = Measured()
        run.run(count=3)
        return {event.asked_samples for event in run.executor.heard(Profiled)}

    assert on_ranks(1, act)[0] == {3.0 * 64}
