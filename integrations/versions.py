"""Tells whether a framework is installed in a version that its integration was tested with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

# Package -> the first version that is accepted, the first one that is not, and the extra that brings it.
TESTED = {
    "transformers": ((5, 24), (5, 25), "transformers"),
    "accelerate": ((1, 15), (1, 16), "accelerate"),
    "lightning": ((2, 6), (2, 7), "lightning"),
    "ray": ((2, 55), (2, 61), "ray_train"),
}


def require(package: str) -> None:
    """Raise ImportError, in one sentence, where a package is missing or of a version that was not tested."""
    first, below, extra = TESTED[package]
    accepted = f"{_said(first)} up to, but not {_said(below)}"
    try:
        found = version(package)
    except PackageNotFoundError:
        raise ImportError(
            f"coadapt.integrations.{extra}: {package} is not installed; pip install 'coadapt[{extra}]'"
        ) from None
    if not first <= _number(found) < below:
        raise ImportError(
            f"coadapt.integrations.{extra}: {package} {found} is not one that it was tested with; {accepted} is "
            f"accepted: pip install 'coadapt[{extra}]'"
        )


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _said(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))
