"""Runs Alembic's migrations on a connection that has a transaction under way."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

_FOLDER = Path(__file__).parent / "migrations"


def knows(version: str) -> bool:
    """Return whether there is a way from a version."""
    return version in versions()


def versions() -> list[str]:
    """Return all versions, oldest first."""
    return sorted(path.name[1:5] for path in (_FOLDER / "versions").glob("v[0-9]*.py"))


def migrate(connection: Connection, found: str | None, wanted: str) -> None:
    """Bring tables from one version to another, up or down. None: there are none yet."""
    # Imported only when it is needed: that takes as long as all else here.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["connection"] = connection
    if found is not None:
        stamp(connection, found)
    (command.upgrade if found is None or wanted > found else command.downgrade)(config, wanted)


def stamp(connection: Connection, version: str) -> None:
    """Say which version the tables have."""
    connection.exec_driver_sql(
        "create table if not exists alembic_version (version_num varchar(32) not null primary key)"
    )
    connection.exec_driver_sql("delete from alembic_version")
    connection.exec_driver_sql(f"insert into alembic_version values('{version}')")
