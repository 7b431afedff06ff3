"""The loop of rounds ends only when it is told to: what raises is told, and a store that fails heals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from coadapt.core.errors import StateError
from coadapt.core.job import JobSpec
from coadapt.scheduler.runtime import loop as loops
from coadapt.scheduler.runtime.clock import SystemClock
from coadapt.scheduler.runtime.degraded import StoreWatch
from coadapt.scheduler.runtime.loop import Loop
from coadapt.scheduler.runtime.patience import FIRST_S, Patience
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.failures import StoreFailure
from coadapt.scheduler.store.store import Store
from coadapt.scheduler.views.cluster_views import health_view

from tests.support.cycles import ManualClock, World
from tests.support.stores import raw

LONG_S = 30.0  # that no test takes


class Stage:
    """A loop over a store on disk. `ticks` counts those that ran; `do` is what each does."""

    def __init__(self, folder: Path, clock: SystemClock | ManualClock) -> None:
        self.path, self.watch, self.woken = folder / "jobs.sqlite", StoreWatch(clock), threading.Event()
        self.store = Store(self.path, self.watch.wrote)
        self.ticked, self.ended, self.ticks = threading.Condition(), threading.Event(), 0
        self.do: Callable[[], None] = lambda: None
        patience = Patience(folder / "ended_in_ticks")
        self.loop = Loop(
            self.store, self.watch, clock, [], self.tick, lambda: 0.001, self.woken, self.ended.set, patience
        )

    def tick(self) -> None:
        try:
            self.do()
        finally:
            with self.ticked:
                self.ticks += 1
                self.ticked.notify_all()

    def wait(self, more: int = 2) -> None:
        """Wait until further ticks have begun and ended."""
        with self.ticked:
            wanted = self.ticks + more
            assert self.ticked.wait_for(lambda: self.ticks >= wanted, LONG_S)

    def told(self) -> list[str]:
        return [str(event.data["text"]) for event in self.store.cluster_events()]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(loops, "PROBE_S", 0.01)
    monkeypatch.setattr(loops, "LOOK_S", 0.01)
    stage = Stage(tmp_path, SystemClock())
    stage.loop.start()
    yield stage
    stage.loop.stop()
    stage.store.close()


def failing() -> None:
    raise ArithmeticError("no number")


def test_what_a_tick_raises_is_told_once_and_the_loop_goes_on(stage: Stage) -> None:
    stage.wait()
    stage.do = failing
    stage.wait(5)
    assert stage.told() == ["ArithmeticError: no number"]
    view = health_view(stage.loop.health(), stage.watch.notes(), None)
    assert view["notes"] == ["the last tick failed and is tried again: ArithmeticError: no number"]
    stage.do = lambda: None
    stage.wait(3)
    assert stage.loop.health().trouble == ""


def lock(path: Path) -> Callable[[], None]:
    """Hold the store's lock as another program may, and return what gives it back."""
    import sqlite3

    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    return other.close


def fill(stage: Stage) -> Callable[[], None]:
    """Let the disk have no room, and return what makes some."""

    def limit(pages: int) -> None:
        stage.store.database.write(lambda c: c.exec_driver_sql(f"pragma max_page_count={pages}"))

    limit(1)
    return lambda: limit(1_000_000)


@pytest.mark.parametrize(
    ("hurt", "reason"),
    [
        (lambda stage: lock(stage.path), "the store cannot be written: database is locked"),
        (fill, "the store cannot be written: database or disk is full"),
    ],
    ids=["locked", "full"],
)
def test_a_store_that_fails_is_told_stops_no_loop_and_heals_by_itself(
    stage: Stage, hurt: Callable[[Stage], Callable[[], None]], reason: str
) -> None:
    big, commanded = "x" * 200_000, []

    def writes() -> None:
        stage.store.log(Event(loops.EventKind.PLAN, 1.0, None, {"text": big}))
        commanded.append(1)

    stage.wait()
    mend = hurt(stage)
    stage.do = writes
    deadline = threading.Event()
    while stage.watch.degraded is None and not deadline.wait(0.01):
        assert stage.loop.health().tick_age_s < LONG_S
    assert commanded == []
    assert stage.watch.degraded is not None
    assert stage.watch.degraded.reason == reason
    with (
        pytest.raises(StateError, match=f"takes no changes now; it is degraded since .*: {reason}; jobs go on"),
        stage.watch.storing(),
    ):
        pytest.fail("nothing may be tried")
    assert stage.watch.notes()[0].startswith("degraded since ")
    assert stage.told() == [], "reading goes on"
    mend()
    stage.wait(3)
    assert commanded
    assert stage.watch.degraded is None
    assert reason in stage.told()[0]
    assert stage.told()[0].startswith("nothing could be stored for ")


def test_a_service_whose_store_was_taken_over_ends(stage: Stage) -> None:
    stage.wait()
    raw(stage.path, "update meta set value='99' where key='epoch'")
    stage.do = lambda: stage.store.log(Event(loops.EventKind.PLAN, 1.0))
    assert stage.ended.wait(LONG_S)


def test_a_tick_that_hangs_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LOOK_S", 0.01)
    clock, hangs, go_on = ManualClock(), threading.Event(), threading.Event()
    stage = Stage(tmp_path, clock)

    def hang() -> None:
        hangs.set()
        go_on.wait(LONG_S)

    stage.do = hang
    stage.loop.start()
    assert hangs.wait(LONG_S)
    clock.forward(FIRST_S)
    assert not stage.ended.wait(0.1)
    clock.forward(1.0)
    assert stage.ended.wait(LONG_S)
    stage.loop.stop()
    go_on.set()
    stage.store.close()
    assert Patience(tmp_path / "ended_in_ticks").seconds == 2 * FIRST_S, "the machine may just be slow"


def test_a_tick_that_ends_takes_back_what_slow_ones_were_given(tmp_path: Path) -> None:
    note = tmp_path / "ended_in_ticks"
    for _ in range(9):
        Patience(note).lost()
    assert Patience(note).seconds == 64 * FIRST_S
    stage = Stage(tmp_path, SystemClock())
    stage.loop.start()
    stage.wait()
    stage.loop.stop()
    stage.store.close()
    assert Patience(note).seconds == FIRST_S
    assert not note.exists()


@pytest.mark.parametrize("text", ["", "three", "-4", "9" * 5000])
def test_a_note_of_ends_that_cannot_be_read_harms_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "note").write_text(text)
    assert FIRST_S <= Patience(tmp_path / "note").seconds <= 64 * FIRST_S
    assert Patience(tmp_path / "no" / "folder").seconds == FIRST_S
    Patience(tmp_path / "no" / "folder").lost()


def test_changes_that_cannot_be_stored_are_refused_and_nothing_is_commanded(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("submit a unprofiled\nwish a t4-000:2\ngo\n? sent assign a 2xt4\nruns a")
    before = world.job("a")
    world.store.database.write(lambda c: c.exec_driver_sql("pragma max_page_count=1"))
    large = JobSpec(name="large", script="t.py", env={"WORDS": "x" * 200_000})
    with pytest.raises(StateError, match=r"disk is full; nothing was changed, and the same may work later"):
        world.cycle.orders.submit(large, idempotency_key="1")
    world.cycle._watch.wrote(StoreFailure("no room"), 0.1)
    for change in ("cancel a", "pause a", "report a t4"):
        with pytest.raises(StateError, match="takes no changes now"):
            world.play(change)
    assert (world.job("a"), world.executors.sent) == (before, [])
