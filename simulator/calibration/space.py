"""Which options of a policy may be searched, and between which values, as its pydantic model says. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ...core.options import options_of
from ...estimators.interpretable.search import Dimension, Point

WIDER = 4.0  # a number without bounds is searched from its default over this to its default times this
MOST_LEFT = 2  # options that stay at their defaults where a model refuses a whole point


@dataclass(frozen=True)
class Choice:
    """One option that is searched: a number between two ends, or one of some values.

    path: names and positions that lead to it, such as ("profiler", "nodes").
    values: what it may be, in order; empty: any number between the ends.
    """

    path: tuple[str | int, ...]
    default: Any
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    values: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """Return the option as users write it, such as `profiler.nodes`."""
        return ".".join(str(part) for part in self.path)

    @property
    def dimension(self) -> Dimension:
        """Return what a search varies: the number itself, or the position of the value."""
        if self.values:
            return Dimension(self.name, 0, len(self.values) - 1, whole=True)
        log = self.low > 0 and self.high >= 8 * self.low
        return Dimension(self.name, self.low, self.high, log=log, whole=self.whole)

    def number(self, value: Any) -> float:
        """Return a value as the search has it; a number beyond the ends counts as the nearer one."""
        if self.values:
            return float(self.values.index(value)) if value in self.values else 0.0
        return min(max(float(value), self.low), self.high)

    def value(self, number: float) -> Any:
        """Return the option's value at a number of the search, rounded to three digits."""
        if self.values:
            return self.values[round(number)]
        return round(number) if self.whole else float(f"{number:.3g}")


@dataclass(frozen=True)
class Space:
    """The options that are searched, and those that an operator has set.

    whose: what errors call them, such as `policy lucid`. fixed: options by name, as documents.
    """

    model: type[BaseModel]
    whose: str
    choices: tuple[Choice, ...]
    fixed: Mapping[str, Any]

    @property
    def default(self) -> Point:
        """Return where the defaults lie."""
        return {one.name: one.number(one.default) for one in self.choices}

    def options(self, point: Point) -> dict[str, Any]:
        """Return the options at a point. Where the model refuses them, as few as can be stay at defaults."""
        changed = [one for one in self.choices if one.value(point[one.name]) != one.default]
        for count in range(MOST_LEFT + 1):
            for left in combinations(changed, count):
                options = self._document(point, [one for one in changed if one not in left])
                if self._is_accepted(options):
                    return options
        return self.defaults()

    def _is_accepted(self, options: Mapping[str, Any]) -> bool:
        try:
            options_of(self.model, self.whose, options)
        except ValueError:
            return False
        return True

    def defaults(self) -> dict[str, Any]:
        """Return the options with nothing but what the operator has set."""
        return _copy(self.fixed)

    def _document(self, point: Point, changed: Iterable[Choice]) -> dict[str, Any]:
        found = self.defaults()
        for one in changed:
            _put(found, self.model, one.path, one.value(point[one.name]))
        return found


def space_of(model: type[BaseModel], whose: str, ranges: Mapping[str, str], fixed: Mapping[str, Any]) -> Space:
    """Return what is searched of a policy's options.

    Searched are switches, words of a list, and numbers. Without both bounds a number is searched around its
    default; one whose default is 0 or nothing, only with a range. What `fixed` sets is not searched.

    Args:
        ranges: `low:high`, or words with commas between, by option.
        fixed: values by option, with a dot before a part, such as `profiler.nodes`.

    Raises:
        ValueError: in one sentence, for an unknown option, one with a range and a value, and a bad range.
    """
    documents: dict[str, Any] = {}
    for name, value in fixed.items():
        path = _path(model, name, whose)
        _put(documents, model, path, value)
    options_of(model, whose, documents)
    known = {".".join(map(str, path)): (path, field, default) for path, field, default in _leaves(model)}
    for name in ranges:
        if name not in known:
            raise ValueError(f"--range: {name!r} is no option that can be searched; {', '.join(known)} can")
        if any(name == set_ or name.startswith(f"{set_}.") for set_ in fixed):
            raise ValueError(f"--range: {name} has a value by --set, too; give one of both")
    found = list[Choice]()
    for name, (path, field, default) in known.items():
        if any(name == set_ or name.startswith(f"{set_}.") for set_ in fixed):
            continue
        choice = _ranged(path, field, default, ranges[name]) if name in ranges else _choice(path, field, default)
        if choice is not None:
            found.append(choice)
    if not found:
        raise ValueError(f"{whose}: none of its options can be searched")
    return Space(model, whose, tuple(found), documents)


def _leaves(
    model: type[BaseModel], before: tuple[str | int, ...] = (), instance: BaseModel | None = None
) -> Iterator[tuple[tuple[str | int, ...], FieldInfo, Any]]:
    """Yield (path, field, default) of all options that are numbers, switches or words, nested ones too."""
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True) if instance is None else getattr(instance, name)
        path, extra = (*before, field.alias or name), field.json_schema_extra
        if isinstance(extra, dict) and extra.get("searched") is False:
            continue
        if isinstance(default, BaseModel):
            yield from _leaves(type(default), path, default)
        elif isinstance(default, tuple) and all(isinstance(part, float) for part in default):
            for at, part in enumerate(default):
                yield (*path, at), field, part
        elif isinstance(default, (bool, int, float, Enum)) or (default is None and _forms(field) & {int, float}):
            yield path, field, default


def _choice(path: tuple[str | int, ...], field: FieldInfo, default: Any) -> Choice | None:
    """Return how an option is searched if nobody says; None: it is not."""
    if isinstance(default, bool):
        return Choice(path, default, values=(default, not default))
    if isinstance(default, Enum):
        return Choice(path, default.value, values=tuple(one.value for one in type(default)))
    if not default or isinstance(path[-1], int):
        return None
    whole = isinstance(default, int)
    least, most = _bounds(field, whole)
    low = max(default / WIDER if default > 0 else default * WIDER, least)
    high = min(default * WIDER if default > 0 else default / WIDER, most)
    if math.isfinite(least) and math.isfinite(most):
        low, high = least, most
    low, high = (math.ceil(low), math.floor(high)) if whole else (low, high)
    return Choice(path, default, low, high, whole) if low < high else None


def _ranged(path: tuple[str | int, ...], field: FieldInfo, default: Any, text: str) -> Choice:
    """Return how an option is searched within a range. Raises ValueError, in one sentence."""
    name = ".".join(map(str, path))
    if isinstance(default, bool | Enum):
        every = (True, False) if isinstance(default, bool) else tuple(one.value for one in type(default))
        words = {json.dumps(one) if isinstance(one, bool) else str(one): one for one in every}
        wanted = [word.strip() for word in text.split(",")]
        if len(set(wanted)) < 2 or not set(wanted) <= set(words):
            raise ValueError(f"--range: {name}={text} is not accepted, must be at least two of {', '.join(words)}")
        own = default.value if isinstance(default, Enum) else default
        return Choice(path, own, values=tuple(words[word] for word in dict.fromkeys(wanted)))
    low_text, colon, high_text = text.partition(":")
    try:
        low, high = float(low_text), float(high_text)
    except ValueError:
        low, high = math.nan, math.nan
    whole = isinstance(default, int) or (default is None and float not in _forms(field))
    least, most = _bounds(field, whole)
    if not colon or not (least <= low < high <= most) or not math.isfinite(high - low):
        ends = f" within {least:g} and {most:g}" if math.isfinite(least) or math.isfinite(most) else ""
        raise ValueError(f"--range: {name}={text} is not accepted, must be low:high, two rising numbers{ends}")
    return Choice(path, default, low, high, whole)


def _bounds(field: FieldInfo, whole: bool) -> tuple[float, float]:
    """Return the least and the greatest value of a number; an end that does not belong to it is left out."""
    least, most = -math.inf, math.inf
    for rule in field.metadata:
        for name in ("ge", "gt", "le", "lt"):
            if (end := getattr(rule, name, None)) is None:
                continue
            step = 0.0 if name in ("ge", "le") else 1.0 if whole else 1e-6 * max(abs(end), 1.0)
            least, most = (max(least, end + step), most) if name[0] == "g" else (least, min(most, end - step))
    return least, most


def _forms(field: FieldInfo) -> set[Any]:
    kind = field.annotation
    return set(get_args(kind)) if get_origin(kind) in (Union, UnionType) else {kind}


def _path(model: type[BaseModel], name: str, whose: str) -> tuple[str | int, ...]:
    """Return the path of an option that is set. Raises ValueError for an unknown one."""
    first, *rest = name.split(".")
    fields = {field.alias or key: field for key, field in model.model_fields.items()}
    if first not in fields:
        raise ValueError(f"{whose}: option {name!r} is unknown; accepted: {', '.join(fields)}")
    return (first, *(int(part) if part.isdigit() else part for part in rest))


def _put(document: dict[str, Any], model: type[BaseModel], path: Sequence[str | int], value: Any) -> None:
    """Set a part of a document; a list is begun as the default has it."""
    first, *rest = path
    if not rest:
        document[str(first)] = value
        return
    by_name = {field.alias or key: field for key, field in model.model_fields.items()}
    default = by_name[str(first)].get_default(call_default_factory=True) if str(first) in by_name else None
    if isinstance(rest[0], int):
        whole = list(document.get(str(first), default or ()))
        if rest[0] >= len(whole):
            raise ValueError(f"{first}: has no part {rest[0]}; its parts are 0 to {len(whole) - 1}")
        whole[rest[0]] = value
        document[str(first)] = whole
        return
    if not isinstance(default, BaseModel):
        raise ValueError(f"{first}: has no part {rest[0]}")
    # A policy's own default of a part may differ from that of the part's model.
    inner = document.setdefault(str(first), default.model_dump(mode="json", exclude_unset=True))
    _put(inner, type(default), rest, value)


def _copy(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _copy(part) if isinstance(part, Mapping) else list(part) if isinstance(part, list) else part
        for name, part in document.items()
    }
