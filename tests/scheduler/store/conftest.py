"""Stores in SQLite files and in a PostgreSQL database, so that each promise is held by both."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from coadapt.scheduler.store.store import Store

from tests.support.stores import KINDS, new_database, postgres


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(params=KINDS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A place where no store is yet."""
    if request.param == "sqlite":
        return tmp_path / "jobs.sqlite"
    return new_database(request.getfixturevalue("server"))


@pytest.fixture
def store(where: Path | str) -> Iterator[Store]:
    store = Store(where)
    yield store
    store.close()
