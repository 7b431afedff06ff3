"""The programs of `benchmarks.doors` are as many as promised, their job files are sound, and few lines change."""

from __future__ import annotations

import pytest
from coadapt.client import jobfile
from coadapt.core.doors import Door

from benchmarks.doors import changed_lines, spec_of
from benchmarks.doors_by_hand import Outcome
from benchmarks.doors_programs import FOLDER, PROGRAMS, Program


def test_there_are_at_least_twenty_kinds_and_every_door_is_among_them() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) >= 20
    assert {program.door for program in PROGRAMS} == set(Door)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_is_brought_with_few_changed_lines_or_none(program: Program) -> None:
    spec = jobfile.locate(spec_of(program), FOLDER)
    assert (FOLDER / program.file).exists()
    assert spec.door is program.door
    assert changed_lines(program) <= (0 if program.untouched else 4)


def test_a_result_may_differ_by_round_off_and_an_error_by_nothing() -> None:
    hand = Outcome(True, "final loss 0.552627")
    assert Outcome(True, "final loss 0.552628").unlike(hand) == []
    assert Outcome(True, "final loss 0.56").unlike(hand) != []
    assert Outcome(True, "").unlike(hand) != []
    assert Outcome(False, "", "it failed").unlike(hand) != []
    failed = Outcome(False, "ValueError: no")
    assert Outcome(False, "", "ValueError: no (no other try)").unlike(failed) == []
    assert Outcome(False, "", "exited with status 1").unlike(failed) != []
