"""A page and its pictures, written to files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_page(out: Path, text: str, pictures: Mapping[str, bytes]) -> list[Path]:
    """Write a page, and its pictures (PNG by file name) into a folder of its name beside it.

    Return the written paths. Raise ValueError, in one sentence, if they cannot be written.
    """
    written = [out]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = out.with_suffix("")
        beside = beside if beside != out else out.with_name(f"{out.name}-pictures")
        beside.mkdir(exist_ok=True)
        for name, png in pictures.items():
            (beside / name).write_bytes(png)
            written.append(beside / name)
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"--out: {out} cannot be written: {error.strerror or error}") from None
    return written
