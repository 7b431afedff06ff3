"""Where models lie that `coadapt models` shows: files, and what services have learned on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..estimators.interpretable import corrections, model_file
from ..estimators.interpretable.corrections import Model
from ..estimators.interpretable.model_file import Kept


@dataclass(frozen=True)
class Found:
    """A model, where it lies, and of which service it is; "": it is a file by itself."""

    name: str
    path: Path
    kept: Kept
    service: str = ""


def learned_dir() -> Path:
    """Return where the services of this user keep what they have learned."""
    from ..deploy.store_care import settings_here

    return Path(settings_here().learned_dir)


def found(which: str) -> Found:
    """Return a model by the path of its file, or by the name of a service or one of its parts.

    Raises:
        ValueError: in one sentence, for a file that is no model, and where there is none of that name.
    """
    path = Path(which)
    if path.exists() or path.suffix == ".json":
        return Found(path.stem, path, model_file.read(path))
    known = [one for one in of_services() if which in (one.name, one.service)]
    if known:
        return known[0]
    names = ", ".join(one.name for one in of_services()) or "none"
    raise ValueError(f"{which}: is no file, and no service has a model of that name that one can read: {names}")


def of_services() -> Iterator[Found]:
    """Yield the additive models that services have learned. Files that cannot be read are passed over."""
    from ..estimators import learned_file

    folder = learned_dir()
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        service = path.stem
        try:
            document, until_s = learned_file.read(path, service)
            for name, part in _parts(service, document):
                model = model_file.of_json(part["fit"])
                changes = corrections.read(part.get("corrections", []))
                yield Found(name, path, Kept(model, changes, {"until_s": until_s}), service)
        except (OSError, ValueError):
            continue


def _parts(service: str, document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the parts of what a service has learned that are additive models."""
    if service == "durations" and isinstance(document.get("trees"), Mapping):
        yield "durations", document["trees"]
        yield "durations.error", document["spread"]
    if service == "energy":
        model = document.get("model", {})
        for one in model.get("changes", ()):
            if isinstance(one.get("trees"), Mapping):
                yield f"energy.change_{one['slots']}", one["trees"]
        for one in model.get("rises", ()):
            if isinstance(one.get("trees"), Mapping):
                yield f"energy.rise_{one['slots']}_{one['certainty']}", one["trees"]


def kind_of(model: Model) -> str:
    """Return the kind of a model, with its size, in words."""
    from ..estimators.interpretable.tree import TreeModel

    if isinstance(model, TreeModel):
        return f"tree of {model.leaves} leaves, depth {model.depth}, cost {model.cost}"
    pairs = sum(len(term.features) == 2 for term in model.terms)
    return f"sum of {len(model.terms) - pairs} terms and {pairs} pairs"
