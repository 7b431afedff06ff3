"""A page of the job store is overwritten with garbage, as a disk that fails does it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from coadapt.core.settings import Settings
from coadapt.deploy import store_care
from coadapt.scheduler.store.store import Store

from .many_jobs import fill

PAGE_BYTES = 4096
JOBS = 500


@dataclass(frozen=True)
class Outcome:
    """Of so many garbled pages: how often doctor named one, and how often the last backup came back whole."""

    pages: int
    named: int
    restored: int


def garbled(folder: Path, pages: int, seed: int = 0) -> Outcome:
    """Garble one page of a store after the other, each time look at it, and bring its backup back."""
    settings = Settings(state_dir=str(folder))
    fill(settings, JOBS, JOBS // 10)
    backup, jobs = store_care.write_backup(folder / "last.sqlite", settings)
    dice, named, restored = random.Random(seed), 0, 0
    for _ in range(pages):
        path = Path(settings.store_path)
        with path.open("r+b") as file:
            used = path.stat().st_size // PAGE_BYTES
            file.seek(dice.randrange(used) * PAGE_BYTES)
            file.write(dice.randbytes(PAGE_BYTES))
        named += bool(store_care.diagnose(None, settings).findings)
        done = store_care.restore(backup, None, settings)
        store = Store(settings.store_path)
        try:
            whole = sum(1 for _ in store.every()) == jobs == done.jobs
        finally:
            store.close()
        restored += whole and not store_care.diagnose(None, settings).findings
    return Outcome(pages, named, restored)
