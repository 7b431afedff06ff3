"""Models on disk: one form of JSON, with a version, bounds and a digest. Nothing is unpickled.

The fit and what people changed in it stand beside each other. Numbers are written so that they are read back to
the bit.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...core.json_numbers import all_finite
from . import corrections as changing
from .additive import AdditiveModel, Term
from .corrections import ByHand, Correction, Model, corrected, has_place
from .table import Feature, Floats
from .tree import TreeModel

FORMAT, VERSION = "coadapt-model", 1
MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Kept:
    """A fit, its corrections, and what else is told of it, such as where its rows are from."""

    fitted: Model
    corrections: tuple[Correction, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """Return the model with its corrections. Raises ValueError where one does not go with the fit."""
        if isinstance(self.fitted, AdditiveModel):
            return corrected(self.fitted, self.corrections, "wait")
        return corrected(self.fitted, self.corrections, "wait")

    @property
    def waiting(self) -> tuple[Correction, ...]:
        """Return the corrections for which this fit has no place, such as those of a user who has left."""
        return tuple(
            one for one in self.corrections if isinstance(one, ByHand) and not has_place(self.fitted, one)
        )


def write(path: Path, kept: Kept) -> None:
    """Write a model beside the file that is there, and rename it over that one.

    Raises:
        ValueError: in one sentence, for a model that is too large, and where it cannot be written.
    """
    content = {
        "model": to_json(kept.fitted),
        "corrections": changing.to_json(kept.corrections),
        "about": dict(kept.about),
    }
    if not all_finite(content):
        raise ValueError(f"{path}: a model with NaN or infinity is not kept")
    document = {"format": FORMAT, "version": VERSION, "sha256": digest(content), **content}
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    if len(text) > MOST_BYTES:
        raise ValueError(f"{path}: the model takes {len(text):,} bytes, and at most {MOST_BYTES:,} are accepted")
    beside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror or error}") from None


def read(path: Path) -> Kept:
    """Return the model of a file.

    Raises:
        ValueError: in one sentence, for a file that is not there, torn, too large, changed, of another version, or
            holds what is no model.
    """
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise ValueError(f"{path}: has {size:,} bytes, and at most {MOST_BYTES:,} are accepted")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is torn or no model: it is no text") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is torn or no model: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path}: is no model file")
    if document.get("version") != VERSION:
        raise ValueError(f"{path}: is of version {document.get('version')!r}, and {VERSION} is accepted")
    if not all_finite(document):
        raise ValueError(f"{path}: holds NaN or infinity, which no model has")
    content = {key: document.get(key) for key in ("model", "corrections", "about")}
    if document.get("sha256") != digest(content):
        raise ValueError(f"{path}: is torn or was changed, its digest differs")
    try:
        about = content["about"] if isinstance(content["about"], dict) else {}
        found = Kept(of_json(content["model"]), changing.read(content["corrections"]), about)
        _ = found.model  # its corrections must go with it
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return found


def digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain JSON values."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def to_json(model: Model) -> dict[str, Any]:
    """Return a model as plain JSON values."""
    shared = {
        "features": [
            {"name": one.name, "categories": list(one.categories), "whole": one.whole} for one in model.features
        ],
        "target": model.target,
        "classes": list(model.classes),
    }
    if isinstance(model, AdditiveModel):
        return {
            "kind": "additive",
            **shared,
            "mean": model.mean,
            "link": model.link,
            "band": None if model.band is None else list(model.band),
            "terms": [
                {
                    "features": list(term.features),
                    "edges": [edges.tolist() for edges in term.edges],
                    "scores": term.scores.tolist(),
                    "counts": term.counts.tolist(),
                }
                for term in model.terms
            ],
        }
    return {
        "kind": "tree",
        **shared,
        "cost": model.cost,
        **{name: getattr(model, name).tolist() for name in (*_WHOLE, "missing_left", *_REAL)},
    }


_WHOLE = ("feature", "left", "right")
_REAL = ("threshold", "values", "counts", "costs")


def of_json(document: Any) -> Model:
    """Return the model that `to_json` wrote.

    Raises:
        ValueError: in one sentence, for anything else, such as unsorted edges or a number that is not finite.
    """
    try:
        features = tuple(
            Feature(str(row["name"]), tuple(map(str, row["categories"])), bool(row["whole"]))
            for row in document["features"]
        )
        names = [one.name for one in features]
        if len(set(names)) < len(names):
            raise ValueError("model: two of its features have one name")
        target, classes = str(document["target"]), tuple(map(str, document["classes"]))
        if document["kind"] == "additive":
            band = document["band"]
            terms = tuple(
                Term(
                    tuple(int(f) for f in row["features"]),
                    tuple(_array(edges, 1) for edges in row["edges"]),
                    _array(row["scores"], len(row["features"])),
                    _array(row["counts"], len(row["features"])),
                )
                for row in document["terms"]
            )
            ends = None if band is None else (float(band[0]), float(band[1]))
            return AdditiveModel(features, float(document["mean"]), terms, document["link"], ends, target, classes)
        if document["kind"] != "tree":
            raise ValueError(f"model: is of kind {document['kind']!r}; accepted: additive, tree")
        if document["cost"] not in ("error", "impurity"):
            raise ValueError(f"model: cost {document['cost']!r} is not accepted, must be error or impurity")
        feature, left, right = (_whole(document[name], name) for name in _WHOLE)
        threshold, counts, costs = (_array(document[name], 1) for name in ("threshold", "counts", "costs"))
        missing, values = np.array(document["missing_left"], bool), _array(document["values"], 2)
        return TreeModel(
            features, feature, threshold, left, right, missing, values, counts, costs,
            document["cost"], target, classes,
        )  # fmt: skip
    except (KeyError, TypeError, IndexError, OverflowError) as error:
        raise ValueError(f"model: is no such document: {type(error).__name__}: {error}") from None


def _array(values: Sequence[Any], dimensions: int) -> Floats:
    try:
        found = np.array(values, float)
    except ValueError:
        raise ValueError("model: a list of numbers is ragged or holds no numbers") from None
    if found.size == 0 and dimensions == 1:
        return found.reshape(0)
    if found.ndim != dimensions:
        raise ValueError(f"model: numbers of {found.ndim} dimensions are not accepted, must be {dimensions}")
    return found


def _whole(values: Sequence[Any], name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    if not all(isinstance(one, int) and not isinstance(one, bool) and abs(one) < 2**31 for one in values):
        raise ValueError(f"model: {name}: holds what is no whole number")
    return np.array(values, np.int64)


def size_of(model: Model) -> int:
    """Return the bytes that a model takes as text."""
    return len(json.dumps(to_json(model), separators=(",", ":")))
