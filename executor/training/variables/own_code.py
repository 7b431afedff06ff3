"""Which running code is the runtime's own, and not the script's."""

from __future__ import annotations

import os
from pathlib import Path
from types import FrameType

FOLDER = f"{Path(os.path.abspath(__file__)).parents[2]}{os.sep}"  # the room `executor`


def is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(FOLDER)
