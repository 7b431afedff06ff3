"""What the service learns of jobs that have ended: beside rounds, kept on disk, and never worse for a bad file."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.core.expected import ExpectedSource
from coadapt.estimators import learned_file
from coadapt.estimators.curves.curve import Curve

from tests.support.cycles import World

# Two runs of a script that nobody measures, one after the other; the first one trains for 100 s.
FIRST_RUN = """
submit a unprofiled same=s
wish a t4-000:2
go
runs a
after 97
finish a
left a
go
"""
SECOND = """
submit b unprofiled same=s
go
"""
FILE = "learned/run_lengths.json"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "1x t4:4")


def expected(world: World, name: str) -> tuple[ExpectedSource, float]:
    (view,) = [view for view in world.policy.rounds[-1].jobs if view.id == world.ids[name]]
    return view.expected.source, view.expected.mean_s


def test_a_job_is_expected_to_take_as_long_as_the_last_run_of_its_script(world: World, tmp_path: Path) -> None:
    world.play(FIRST_RUN)
    assert world.cycle.learning.wait(10.0)
    assert learned_file.read(tmp_path / FILE, "run_lengths")[0]["scripts"][0]["script"] == "s"
    world.play(SECOND)
    source, mean_s = expected(world, "b")
    assert source is ExpectedSource.EARLIER_RUNS
    assert mean_s == pytest.approx(100.0, rel=0.2)
    world.play("submit c unprofiled same=other\ngo")
    assert expected(world, "c")[0] is ExpectedSource.UNKNOWN


def test_the_course_of_a_targets_metric_is_kept_for_the_next_run_of_the_script(world: World) -> None:
    evaluated = "\n".join(f"evaluated a {samples} 0.{samples // 1000}" for samples in (2000, 4000, 6000))
    world.play(
        f"submit a unprofiled same=s target=0.6\nwish a t4-000:2\ngo\nruns a\n{evaluated}\nafter 97\nfinish a"
    )
    world.play("left a\ngo")
    assert world.cycle.learning.wait(10.0)
    world.play("reopen")
    known = world.cycle.learning.model.of("", "s")
    assert known is not None
    assert known.curves == {"accuracy": (Curve((2000.0, 4000.0, 6000.0), (0.2, 0.4, 0.6)),)}


def test_what_was_learned_is_known_again_after_a_restart(world: World) -> None:
    world.play(FIRST_RUN)
    assert world.cycle.learning.wait(10.0)
    world.play("reopen")
    assert world.cycle.learning.model.of("", "s") is not None


def test_a_torn_file_is_told_in_one_sentence_and_learned_anew(world: World, tmp_path: Path) -> None:
    world.play(FIRST_RUN)
    assert world.cycle.learning.wait(10.0)
    (tmp_path / FILE).write_text("{")
    world.play("reopen")
    told = [str(event.data["text"]) for event in world.store.events() if event.kind == "error"]
    assert len(told) == 1
    assert told[0].startswith(f"{tmp_path / FILE}: is torn or no learned model: ")
    assert told[0].endswith("; it is learned anew")
    world.play("after 60\ngo")
    assert world.cycle.learning.wait(10.0)
    assert world.cycle.learning.model.of("", "s") is not None
    assert learned_file.read(tmp_path / FILE, "run_lengths")[0]["scripts"]


def test_where_nothing_can_be_kept_the_last_good_model_stays(world: World, tmp_path: Path) -> None:
    world.play(FIRST_RUN)
    assert world.cycle.learning.wait(10.0)
    good, path = world.cycle.learning.model, tmp_path / FILE
    path.unlink()
    path.mkdir()
    world.play("after 60\n" + FIRST_RUN.replace(" a", " d"))
    assert world.cycle.learning.wait(10.0)
    assert world.cycle.learning.model is good
    told = [str(event.data["text"]) for event in world.store.events() if event.kind == "error"]
    assert any(text.startswith("run_lengths: was not learned anew: ") for text in told), told


# Four more runs, in one round: two end soon, and the two that end last take as long as the first run.
TWO_ODD_ONES = """
submit b unprofiled same=s
submit c unprofiled same=s
submit d unprofiled same=s
submit e unprofiled same=s
wish b t4-000:1
wish c t4-000:1
wish d t4-000:1
wish e t4-000:1
go
runs b
runs c
runs d
runs e
after 5
finish b
left b
finish c
left c
after 90
finish d
left d
finish e
left e
go
"""


def test_a_worse_model_is_not_taken_and_the_log_tells_both_losses(world: World, tmp_path: Path) -> None:
    world.play(FIRST_RUN)
    assert world.cycle.learning.wait(10.0)
    good, kept = world.cycle.learning.model, (tmp_path / FILE).read_text()
    world.play(TWO_ODD_ONES)
    assert world.cycle.learning.wait(10.0)
    (told,) = [event.data for event in world.store.events() if event.kind == "learned"]
    assert (told["model"], told["taken"], told["held_back"]) == ("run_lengths", False, 2)
    assert told["new_loss"] > 1.0 > 0.1 > told["old_loss"]
    assert world.cycle.learning.model is good
    assert (tmp_path / FILE).read_text() == kept
