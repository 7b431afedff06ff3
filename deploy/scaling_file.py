"""The file of `coadapt up --scaling`: which nodes may be bought, what they cost, and the budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..core import safe_yaml
from ..core.refused_values import why_refused
from ..core.scaling_settings import NodeType, ScalingSettings

NODE_TYPE_LABEL = "coadapt.io/node-type"
_FORM = re.compile(r"int$|float$|constrained-|dict\[|function-")  # which form of a value an error is about


class ScalingFileError(ValueError):
    """A scaling file that cannot be used; one sentence with the file, the field and the value."""


def load(path: str | Path) -> ScalingSettings:
    """Return the settings in a file. Raises: ScalingFileError.

    A field `cluster` names the YAML file of Ray's autoscaler. Then it is looked whether that knows each type.
    """
    values = _read(path, "scaling file", "budget_per_h: 40")
    cluster = values.pop("cluster", None)
    try:
        settings = ScalingSettings.model_validate(values)
    except ValidationError as error:
        raise ScalingFileError(f"{path}: {_sentence(error)}") from None
    if cluster is not None:
        where = Path(path).expanduser().parent / Path(str(cluster)).expanduser()
        for name, type in settings.types.items():
            if why := unknown(name, type, _read(where, "cluster file", "available_node_types")):
                raise ScalingFileError(f"{path}: types.{name}: {where}: {why}")
    return settings


def unknown(name: str, type: NodeType, cluster: Mapping[str, Any]) -> str:
    """Return why Ray's autoscaler cannot start nodes of a type; "": it can.

    Args:
        cluster: what its YAML file says.
    """
    kinds = cluster.get("available_node_types")
    kinds = kinds if isinstance(kinds, dict) else {}
    labels = {str((kind or {}).get("labels", {}).get(NODE_TYPE_LABEL)): kind for kind in kinds.values()}
    kind = labels.get(name)
    if kind is None:
        known = ", ".join(sorted(label for label in labels if label != "None")) or "none"
        return f"no node type there has the label {NODE_TYPE_LABEL}: {name}; known: {known}"
    gpus, most = kind.get("resources", {}).get("GPU", 0), kind.get("max_workers", 0)
    if gpus != type.gpus:
        return f"its nodes have {gpus:g} GPUs there, and {type.gpus} here"
    if most < type.max:
        return f"max is {type.max} here, and max_workers {most} there"
    return ""


def _read(path: str | Path, what: str, example: str) -> dict[str, Any]:
    try:
        with Path(path).expanduser().open("rb") as file:
            values = safe_yaml.read(file.read(safe_yaml.MAX_BYTES + 1))
    except OSError as error:
        raise ScalingFileError(f"{path}: cannot be read: {error.strerror}") from None
    except safe_yaml.YamlProblem as error:
        raise ScalingFileError(f"{path}: {safe_yaml.told(error, what)}") from None
    if not isinstance(values, dict):
        raise ScalingFileError(f"{path}: is not a mapping of fields, such as {example}")
    return values


def _sentence(error: ValidationError) -> str:
    first = max(error.errors(include_url=False), key=lambda one: len(one["loc"]))
    field = ".".join(str(part) for part in first["loc"] if not _FORM.match(str(part)))
    if first["type"] == "extra_forbidden":
        known = NodeType.model_fields if field.startswith("types.") else [*ScalingSettings.model_fields, "cluster"]
        return f"{field}: unknown field; known: {', '.join(known)}"
    if first["type"] == "missing":
        return f"{field}: missing"
    return f"{field}: {why_refused(first)}" if field else why_refused(first)
