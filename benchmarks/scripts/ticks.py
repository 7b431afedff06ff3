"""A plain program: it works for some seconds in small pieces, and goes on where it was stopped.

    ticks.py FILE SECONDS

FILE keeps how much was done. Pieces are so small that a program that is stopped for half of the time takes twice
as long, though each piece only waits.
"""

import signal
import sys
import time
from pathlib import Path

PIECE_S = 0.004
EVERY = 250  # pieces

file, pieces = Path(sys.argv[1]), int(float(sys.argv[2]) / PIECE_S)
done = int(file.read_text()) if file.exists() else 0


def keep() -> None:
    """Write how much was done, all of it or nothing."""
    beside = file.with_suffix(".new")
    beside.write_text(str(done))
    beside.replace(file)


def leave(*_: object) -> None:
    keep()
    sys.exit(1)


signal.signal(signal.SIGTERM, leave)
while done < pieces:
    time.sleep(PIECE_S)
    done += 1
    if done % EVERY == 0:
        keep()
        print(f"{done} of {pieces}", flush=True)
