"""The file of `coadapt up --power`: how machines are powered off and on."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from pydantic import ValidationError

from ..core import safe_yaml
from ..core.power_settings import VERBS, PowerSettings
from ..core.refused_values import why_refused

_FORM = re.compile(r"int$|float$|constrained-|dict\[")  # which form of a value an error is about
_TEXT_FIELDS = VERBS  # words of commands are texts, also those that look like numbers


class PowerFileError(ValueError):
    """A power file that cannot be used; one sentence with the file, the field and the value."""


def load(path: str | Path) -> PowerSettings:
    """Return the settings in a file, after looking whether its programs are there. Raises: PowerFileError."""
    try:
        with Path(path).expanduser().open("rb") as file:
            values = safe_yaml.read(file.read(safe_yaml.MAX_BYTES + 1), _TEXT_FIELDS)
    except OSError as error:
        raise PowerFileError(f"{path}: cannot be read: {error.strerror}") from None
    except safe_yaml.YamlProblem as error:
        raise PowerFileError(f"{path}: {safe_yaml.told(error, 'power file')}") from None
    if not isinstance(values, dict):
        raise PowerFileError(f"{path}: is not a mapping of fields, such as adapter: command")
    try:
        settings = PowerSettings.model_validate(values)
    except ValidationError as error:
        raise PowerFileError(f"{path}: {_sentence(error)}") from None
    found: dict[str, list[str]] = {}
    for verb in VERBS:
        words = getattr(settings, verb)
        if words is not None and shutil.which(words[0]) is None:
            raise PowerFileError(f"{path}: {verb}: there is no program {words[0]} here that can be run")
        if words is not None and os.path.dirname(words[0]):
            found[verb] = [os.path.abspath(words[0]), *words[1:]]  # the service runs in another folder
    return settings.model_copy(update=found)


def _sentence(error: ValidationError) -> str:
    """Return one problem as a sentence: of a field of several forms that of the form it comes closest to."""
    first = max(error.errors(include_url=False), key=lambda one: len(one["loc"]))
    field = ".".join(str(part) for part in first["loc"] if not _FORM.match(str(part)))
    if first["type"] == "extra_forbidden":
        return f"{field}: unknown field; known: {', '.join(PowerSettings.model_fields)}"
    if first["type"] == "missing":
        return f"{field}: missing; one of command, autoscaler, emulated"
    return f"{field}: {why_refused(first)}" if field else why_refused(first)
