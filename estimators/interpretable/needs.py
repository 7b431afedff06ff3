"""Libraries that only fitting needs, as the extra `coadapt[learned]` installs them."""

from __future__ import annotations

import importlib
from typing import Any


class LibraryMissing(ValueError):
    """Says in one sentence which library is not there, and how it gets there."""


def library(name: str) -> Any:
    """Return a module of the extra. Raise LibraryMissing where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        what = name.split(".")[0].replace("interpret", "interpret-core").replace("sklearn", "scikit-learn")
        raise LibraryMissing(f"{what}: is not installed; `pip install coadapt[learned]` brings it") from None
