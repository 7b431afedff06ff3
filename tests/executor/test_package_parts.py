"""A package is read in parts from an offset on, until nothing is left."""

from __future__ import annotations

from pathlib import Path

from coadapt.executor import package_parts
from coadapt.executor.package_parts import read_part


def test_the_parts_together_are_the_package(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(package_parts, "PART_BYTES", 3)
    package = tmp_path / "package"
    package.write_bytes(b"abcdefgh")
    parts, offset = [], 0
    while part := read_part(str(package), offset):
        parts.append(part)
        offset += len(part)
    assert parts == [b"abc", b"def", b"gh"]
