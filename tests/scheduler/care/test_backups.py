"""The service backs its store up by itself, keeps the newest copies, and tells a backup that failed."""

from pathlib import Path

from coadapt.core.settings import Settings
from coadapt.scheduler.care.backups import HOUR_S, Backups
from coadapt.scheduler.care.housekeeping import Housekeeping
from coadapt.scheduler.store import restoring
from coadapt.scheduler.store.store import Store

from tests.support.cycles import ManualClock


def regular(settings: Settings) -> list[str]:
    return sorted(path.name for path in settings.backup_dir.glob("regular-*"))


def test_a_backup_is_written_each_day_and_the_newest_are_kept(tmp_path: Path) -> None:
    settings, clock = Settings(state_dir=str(tmp_path), backups_kept=3), ManualClock()
    store = Store(settings.store)
    backups = Backups(store, settings, clock)
    assert backups.keep_up() is None, "the store is new"
    for days in range(1, 6):
        clock.forward(24 * HOUR_S)
        assert backups.keep_up() is not None
        assert backups.keep_up() is None
        assert len(regular(settings)) == min(days, 3)
    store.close()
    store = Store(settings.store)
    assert Backups(store, settings, clock).keep_up() is None, "a restart is no reason for another one"
    store.close()


def test_without_hours_none_is_written(tmp_path: Path) -> None:
    settings, clock = Settings(state_dir=str(tmp_path), backup_hours=0), ManualClock()
    backups = Backups(Store(settings.store), settings, clock)
    backups.keep_up()
    clock.forward(1000 * HOUR_S)
    assert backups.keep_up() is None


def test_one_that_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    settings, clock = Settings(state_dir=str(tmp_path)), ManualClock()
    backups = Backups(Store(settings.store), settings, clock)
    house = Housekeeping([backups])
    house.look()
    settings.backup_dir.write_text("no folder")
    clock.forward(25 * HOUR_S)
    house.look()
    assert house.notes()[0].startswith("the last backup failed: ")
    settings.backup_dir.unlink()
    house.look()
    assert len(house.notes()) == 1, "it waits before it tries again"
    clock.forward(HOUR_S)
    house.look()
    assert house.notes() == []
    (copy,) = settings.backup_dir.iterdir()
    assert restoring.checked(copy) == 0


def test_a_backup_that_is_asked_for_is_another_one(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path))
    backups = Backups(Store(settings.store), settings, ManualClock())
    first, second = backups.write(), backups.write()
    assert first.path != second.path
    assert backups.part(first.path.name, 0, 16) == b"SQLite format 3\x00"
