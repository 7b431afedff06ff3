"""Workers of a machine use cores of their own."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

from coadapt.executor.core_board import CoreBoard, chosen
from hypothesis import given
from hypothesis import strategies as st

CORES = range(8)


def test_a_worker_keeps_its_cores_and_gets_free_ones_besides() -> None:
    claims = {"a": [2, 3], "b": [0, 1]}
    assert chosen(claims, "a", 4, CORES) == (2, 3, 4, 5)
    assert chosen(claims, "a", 1, CORES) == (2,)
    assert chosen(claims, "c", 3, CORES) == (4, 5, 6)
    assert chosen(claims, "c", 99, CORES) == tuple(CORES)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3)), max_size=20))
def test_no_core_is_used_twice_while_there_are_enough(turns: list[tuple[str, int]]) -> None:
    claims: dict[str, tuple[int, ...]] = {}
    for who, count in turns:
        others = sum(len(cores) for one, cores in claims.items() if one != who)
        claims[who] = chosen(claims, who, count, CORES)
        assert len(claims[who]) == count
        if others + count <= len(CORES):
            mine = set(claims[who])
            assert not any(mine & set(cores) for one, cores in claims.items() if one != who)


def _claim(path: Path, count: int, ready: Connection) -> None:
    ready.send(CoreBoard(path, CORES).claim(count))
    ready.poll(60)


def test_cores_of_a_worker_that_was_killed_are_free_again(tmp_path: Path) -> None:
    context, board = multiprocessing.get_context("fork"), CoreBoard(tmp_path / "board", CORES)
    ours, theirs = context.Pipe()
    other = context.Process(target=_claim, args=(tmp_path / "board", 3, theirs))
    other.start()
    assert ours.recv() == (0, 1, 2)
    assert board.claim(4) == (3, 4, 5, 6)
    other.kill()
    other.join()
    assert board.claim(0) == (), "any"
    assert board.claim(2) == (0, 1)


def test_who_has_all_cores_is_kept_to_none_and_a_torn_board_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "board").write_text('{"1@')
    assert CoreBoard(tmp_path / "board", CORES).claim(8) == ()


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 4)), max_size=30))
def test_where_ray_states_fewer_cpus_than_there_are_cores_the_last_cores_stay_free(
    turns: list[tuple[str, int]],
) -> None:
    stated, claims = 4, dict[str, tuple[int, ...]]()
    for who, count in turns:
        others = sum(len(cores) for one, cores in claims.items() if one != who)
        claims[who] = chosen(claims, who, min(count, stated - others), CORES)
        assert set(claims[who]) <= set(CORES[:stated])
