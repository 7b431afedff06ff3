"""Learned models on disk: JSON with a digest, written beside the last good file and then renamed over it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.json_numbers import all_finite

FORMAT, VERSION = "coadapt-learned", 1


def write(path: Path, name: str, model: Mapping[str, Any], until_s: float) -> None:
    """Write a model, all of it or nothing.

    Args:
        until_s: it was fitted to the runs that had ended by then.

    Raises:
        ValueError: in one sentence, for a model with NaN or infinity, and where it cannot be written.
    """
    if not all_finite(model) or not math.isfinite(until_s):
        raise ValueError(f"{path}: {name}: a learned model with NaN or infinity is not kept")
    content = {"until_s": until_s, "model": model}
    document = {"format": FORMAT, "version": VERSION, "name": name, "sha256": _digest(content), **content}
    beside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror or error}") from None


def read(path: Path, name: str) -> tuple[dict[str, Any], float]:
    """Return (model, until_s) as they were written.

    Raises:
        FileNotFoundError: where there is none yet.
        ValueError: in one sentence, for a torn file, another model's or version's, NaN, and a wrong digest.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is torn or no learned model: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT or "model" not in document:
        raise ValueError(f"{path}: is no learned model")
    if (document.get("version"), document.get("name")) != (VERSION, name):
        have = f"{document.get('name')!r} of version {document.get('version')!r}"
        raise ValueError(f"{path}: holds {have}, and {name!r} of version {VERSION} is accepted")
    model, until_s = document["model"], document.get("until_s")
    if not isinstance(until_s, int | float):
        raise ValueError(f"{path}: until_s: {until_s!r} is not accepted, must be a time in seconds")
    if not isinstance(model, dict) or not all_finite(document):
        raise ValueError(f"{path}: holds NaN or infinity, which no learned model has")
    if document.get("sha256") != _digest({"until_s": until_s, "model": model}):
        raise ValueError(f"{path}: is torn or was changed, its digest differs")
    return model, float(until_s)


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
