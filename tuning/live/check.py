"""What is wrong with a study before its first trial, as far as its files tell. Pure but for reading the script."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...core.job import JobSpec
from ...core.refused_values import why_refused
from ..actions import Submit
from ..study_file import StudyFile
from .jobs import job_of


def job_problem(study: StudyFile, base: Mapping[str, Any]) -> str:
    """Return why the user's job file cannot be the job of trials, or ""."""
    values = dict.fromkeys(study.space, 0)
    for elastic, shrink in ((False, study.shrink), *(((True, 1),) if study.shrink > 1 else ())):
        runs = {0: values} if elastic else {0: values, 1: values}
        asked = Submit("study-0", runs, shrink, study.epochs, study.epochs, 1.0, {}, not elastic, elastic)
        try:
            JobSpec.model_validate(job_of("study:1", study, base, asked, {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            return f"job: {field}: {why_refused(first)}" if field else f"job: {why_refused(first)}"
    return ""


def names_problem(study: StudyFile, script: Path) -> str:
    """Return how the names of the space and of the script differ, or "" where they do not, or nobody can tell."""
    asked = names_of(script)
    if asked is None:
        return ""
    if strange := sorted(set(study.space) - asked):
        told = ", ".join(sorted(asked)) or "nothing"
        return f"space.{strange[0]}: the script never asks for it; coadapt.hyperparameters names {told}"
    if missing := sorted(asked - set(study.space)):
        return f"space: the script asks for {missing[0]}, which the space lacks; give it a range or one value"
    return ""


def names_of(script: Path) -> set[str] | None:
    """Return the names that a script gives to `coadapt.hyperparameters`; None: its text does not say them."""
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "hyperparameters":
            names = {keyword.arg for keyword in node.keywords}
            return None if None in names else {name for name in names if name is not None}
    return None
