"""What a client may not send as a package, each with its one sentence, in bounded memory."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from coadapt.api.arriving_package import ArrivingPackage
from coadapt.api.package_check import check
from coadapt.core.errors import PackageError
from coadapt.core.package_form import MIB
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.packages import PACKAGE, entry, name_of, packed

MOST_BYTES = 4 * MIB


def huge() -> bytes:
    """Return a package of one file of 10 GiB, of which only the header comes."""
    header = entry("zeros", 10 << 30).tobuf(tarfile.PAX_FORMAT)
    return gzip.compress(header + bytes(MIB))


def bomb() -> bytes:
    """Return zeros that unpack to 64 MiB behind the end of an archive."""
    return gzip.compress(entry("train.py").tobuf() + bytes(64 * MIB), 1)


def long_name() -> bytes:
    """Return a package whose first header says that a name of 1 GiB follows."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    return gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + b"a" * MIB)


def sparse() -> bytes:
    one = entry("zeros", pax_headers={"GNU.sparse.size": str(10 << 30), "GNU.sparse.map": "0,0"})
    return packed([one])


def nested() -> bytes:
    """Return headers that each describe the next one."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 0
    return gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) * 5000)


WRONG: list[tuple[str, Callable[[], bytes], str]] = [
    ("no zip", lambda: b"PK\x03\x04 something else", "package: it is not a tar file compressed by gzip"),
    ("empty", lambda: b"", "package: it is not a tar file compressed by gzip"),
    ("no tar", lambda: gzip.compress(b"x" * 5000), "package: it is not a tar file compressed by gzip"),
    (
        "cut off",
        lambda: packed([entry("a", 99_999)], 0)[:50_000],
        "package: it is not a tar file compressed by gzip",
    ),
    ("cut at its end", lambda: PACKAGE[:-3], "package: it is not a tar file compressed by gzip"),
    ("10 GiB", huge, "package: it has more than 4 MiB unpacked, which is the most"),
    ("a bomb", bomb, "package: it has more than 4 MiB unpacked, which is the most"),
    ("a long name", long_name, "package: a header of 1073741824 bytes, and at most 65536 are accepted"),
    ("nested headers", nested, "package: it is not a tar file compressed by gzip"),
    ("sparse", sparse, "package: its entry zeros is neither a plain file nor a folder"),
    ("above", lambda: packed([entry("../x")]), "package: its entry ../x is outside the job's folder"),
    ("absolute", lambda: packed([entry("/etc/x")]), "package: its entry /etc/x is outside the job's folder"),
    ("device", lambda: packed([entry("d", type=tarfile.CHRTYPE)]), "package: its entry d is neither a plain file"),
    (
        "link",
        lambda: packed([entry("l", type=tarfile.SYMTYPE, linkname="/etc")]),
        "package: its entry l is neither",
    ),
    (
        "hard link",
        lambda: packed([entry("l", type=tarfile.LNKTYPE, linkname="a")]),
        "package: its entry l is neither",
    ),
    (
        "many",
        lambda: packed(entry(f"{n}") for n in range(1001)),
        "package: it has more than 1000 files and folders",
    ),
]


@pytest.mark.parametrize(("what", "content", "sentence"), WRONG, ids=[what for what, *_ in WRONG])
def test_what_is_no_package_is_refused_and_leaves_nothing(
    tmp_path: Path, what: str, content: Callable[[], bytes], sentence: str
) -> None:
    sent = content()
    (path := tmp_path / "sent").write_bytes(sent)
    tracemalloc.start()
    try:
        with pytest.raises(PackageError) as error:
            check(path, MOST_BYTES, 1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(error.value).startswith(sentence)
    assert peak < 8 * MIB
    with ArrivingPackage(tmp_path / "kept", name_of(sent), 1) as package:
        package.add(sent)
        if what != "many":  # the service takes a hundred times as many
            with pytest.raises(PackageError, match=r"^package: "):
                package.keep()
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_package_as_large_as_is_allowed_is_taken(tmp_path: Path) -> None:
    names = [entry(f"{n}/{'x' * 200}", 1024) for n in range(MOST_BYTES // 1024)]
    (path := tmp_path / "sent").write_bytes(packed(names))
    check(path, MOST_BYTES, len(names))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_comes_is_taken_or_refused_in_one_sentence(data: st.DataObject) -> None:
    """The tar inside is damaged, then zipped anew, so that damage reaches the reader of headers."""
    buffer = io.BytesIO(gzip.decompress(packed([entry("a" * 150, 700), entry("b", type=tarfile.DIRTYPE)])))
    content = bytearray(buffer.getvalue()[:6144])
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    file = io.BytesIO(gzip.compress(bytes(content), 1))

    told = "package: taken"
    try:
        check(_InMemory(file), MOST_BYTES, 1000)  # type: ignore[arg-type]
    except PackageError as error:
        told = str(error)
    assert told.startswith("package: ")
    assert "\n" not in told


class _InMemory:
    def __init__(self, file: io.BytesIO) -> None:
        self._file = file

    def open(self, mode: str) -> io.BytesIO:
        return self._file
