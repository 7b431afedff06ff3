"""Ray's own log is not for whoever runs a command: while Ray starts or connects, none of it reaches stderr.

Ray's C++ part writes there before any of its settings count, such as that it found no way to the Internet.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

DEBUG = "COADAPT_DEBUG"  # in the environment: everything is shown
_RAYS = re.compile(rb"^\[\d{4}-\d\d-\d\d[ T][\d:,.]+ [A-Z] \d+ \d+\] (\([^)]*\) )?[\w/.-]+\.(cc|h|cpp):\d+: ")


def is_noise(line: bytes) -> bool:
    """Return whether a line is of the log of Ray's C++ part."""
    return bool(_RAYS.match(line))


@contextmanager
def without_ray_noise() -> Iterator[None]:
    """Keep lines of Ray's log off stderr; whatever else is written there comes when the block ends."""
    try:
        kept = -1 if os.environ.get(DEBUG) else os.dup(2)
    except OSError:  # there is no stderr
        kept = -1
    if kept < 0:
        yield
        return
    with tempfile.TemporaryFile() as file:
        _flush()
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            _flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            said = b"".join(line for line in file if not is_noise(line))
            if said:
                os.write(2, said)


def _flush() -> None:
    if sys.stderr is not None and not sys.stderr.closed:
        sys.stderr.flush()
