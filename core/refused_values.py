"""Words for a value that pydantic refuses: what was given, and what would have been accepted. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}$": "the id or the name of a job",
    r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}(@[0-9]{1,12})?$": "JOB or JOB@STEP, such as train-3@500",
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$": 'a name of 1 to 63 letters, digits, ".", "_" and "-" that starts with '
    "a letter or digit",
    r"^[\w.]+:\w+$": "module:function",
    r"^[^\x00]*$": "text without NUL characters",
}


def refused(item: Mapping[str, Any]) -> str:
    """Return what is wrong with a value as `0 is not a number of at least 1`. `item`: one of pydantic's errors."""
    return f"{shown(item['input'])} is not {accepted(item)}"


def why_refused(item: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, also where a rule of our own says it. `item`: as above."""
    error = item.get("ctx", {}).get("error")
    return str(error) if item["type"] == "value_error" and error is not None else refused(item)


def accepted(item: Mapping[str, Any]) -> str:
    """Return what would have been accepted, as a noun."""
    kind, ctx = str(item["type"]), item.get("ctx", {})
    bounds = {
        "greater_than": "a number above {gt:g}",
        "greater_than_equal": "a number of at least {ge:g}",
        "less_than": "a number below {lt:.15g}",
        "less_than_equal": "a number of at most {le:.15g}",
        "finite_number": "a finite number",
        "too_short": "a list with at least {min_length} entry",
        "string_too_short": "a text with at least {min_length} character",
    }
    if kind in bounds:
        return bounds[kind].format(**ctx)
    if kind in ("enum", "literal_error"):
        return "one of " + ", ".join(choices([item]))
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(ctx["pattern"], f"text of the form {ctx['pattern']}")
    nouns = {
        "int": "a whole number",
        "float": "a number",
        "string": "text",
        "bool": "true or false",
        "list": "a list",
        "date": "a date, such as 2026-12-25",
        "dict": "a mapping",
        "model": "a mapping",
        "frozen": "a list",
    }
    return nouns.get(kind.split("_")[0], str(item["msg"]).removeprefix("Input should be "))


def choices(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the values that these errors name as accepted."""
    return re.findall(r"'([^']*)'", " ".join(str(item.get("ctx", {}).get("expected", "")) for item in items))


def shown(value: Any) -> str:
    """Return a refused value as its user wrote it, in one line."""
    if value is None:
        return "an empty value"
    text = value if isinstance(value, str) and value else json.dumps(value, default=str)
    return one_line(text)


def one_line(text: str) -> str:
    """Return a text printable, without line breaks, at most 60 characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= 60 else text[:57] + "…"
