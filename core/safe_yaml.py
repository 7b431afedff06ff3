"""YAML from strangers -> plain data, within bounds and with one sentence per problem.

It differs from PyYAML's safe loader:

* A document has at most `MAX_BYTES`, `MAX_DEPTH` and `MAX_VALUES`. An alias counts as what it expands to.
* Keys are texts, and no key stands twice. There are no tags.
* Numbers and booleans are those of YAML 1.2: `no`, `1:30` and `2024-01-01` are texts, and `010` is ten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml

MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_VALUES = 10_000

_SCALARS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
    "null": (r"~|null|Null|NULL|", "~nN\0"),
}
_READ: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: text.lower() == "true",
    "int": lambda text: int(text, 0 if text[:2] in ("0x", "0o") else 10),
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    "null": lambda text: None,
    "str": str,
}
_TAG = "tag:yaml.org,2002:"


class YamlProblem(ValueError):
    """One sentence saying where and what."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - PyYAML's own class attribute


for _name, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(
        _TAG + _name, re.compile(f"^(?:{_pattern})$"), [c if c != "\0" else "" for c in _first]
    )


def read(data: bytes, text_fields: Sequence[str] = ()) -> Any:
    """Return the one document in `data`; below the top-level `text_fields` numbers stay as they are written.

    Raises YamlProblem.
    """
    if len(data) > MAX_BYTES:
        raise YamlProblem(f"{len(data)} bytes is too large; at most {MAX_BYTES} bytes are accepted")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlProblem(f"byte {error.start} is not UTF-8 text; save the file as UTF-8") from None
    try:
        _check_depth(text)
        node = _Loader(text).get_single_node()
    except yaml.YAMLError as error:
        raise YamlProblem(_syntax(error)) from None
    if node is None:
        raise YamlProblem("the file is empty; `coadapt schema` prints what a job file holds")
    _check_size(node)
    return _build(node, (), frozenset(text_fields))


def told(error: YamlProblem, what: str) -> str:
    """Return what is the matter with a file that is no job file."""
    hint = "; `coadapt schema` prints what a job file holds"
    return str(error).removesuffix(hint).replace("job file", what)


def _check_depth(text: str) -> None:
    """Check the depth before the recursive composer runs: events come from a parser that does not recurse."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise YamlProblem(
                    f"{_line(event.start_mark)}: nested more than {MAX_DEPTH} deep, which no job file needs"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_size(root: yaml.Node) -> None:
    """Bound the values that aliases expand to, and how deep they nest, without expanding them."""
    found: dict[int, tuple[int, int]] = {}
    open_nodes: set[int] = set()

    def size_and_depth(node: yaml.Node) -> tuple[int, int]:
        if id(node) in found:
            return found[id(node)]
        if id(node) in open_nodes:
            raise YamlProblem(f"{_line(node.start_mark)}: an anchor that contains itself")
        open_nodes.add(id(node))
        below = [size_and_depth(child) for child in _children(node)]
        open_nodes.discard(id(node))
        depth = isinstance(node, yaml.CollectionNode) + max((depth for _, depth in below), default=0)
        if depth > MAX_DEPTH:
            raise YamlProblem(
                f"{_line(node.start_mark)}: its aliases nest more than {MAX_DEPTH} deep, which no job file needs"
            )
        found[id(node)] = 1 + sum(size for size, _ in below), depth
        return found[id(node)]

    if size_and_depth(root)[0] > MAX_VALUES:
        raise YamlProblem(f"its aliases expand to more than {MAX_VALUES} values, which no job file needs")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _build(node: yaml.Node, path: tuple[str, ...], text_fields: frozenset[str]) -> Any:
    kind = node.tag.removeprefix(_TAG)
    where = _line(node.start_mark)
    if isinstance(node, yaml.MappingNode) and kind == "map":
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlProblem(f"{_line(key_node.start_mark)}: a key must be text")
            key = str(key_node.value)
            if key in out:
                name = ".".join((*path, key))
                raise YamlProblem(f"{_line(key_node.start_mark)}: {name} is given twice")
            out[key] = _build(value_node, (*path, key), text_fields)
        return out
    if isinstance(node, yaml.SequenceNode) and kind == "seq":
        return [_build(child, (*path, str(i)), text_fields) for i, child in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode) and kind in _READ:
        if path and path[0] in text_fields and kind != "null":
            return str(node.value)
        if kind == "int" and len(node.value) > 30:
            raise YamlProblem(f"{where}: a number of {len(node.value)} digits is too large")
        try:
            return _READ[kind](str(node.value))
        except ValueError:
            raise YamlProblem(f"{where}: {node.value} is not a {kind}") from None
    raise YamlProblem(
        f"{where}: the tag {node.tag} is not accepted; write plain text, numbers, lists and mappings"
    )


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}"


def _syntax(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = " ".join(str(getattr(error, "problem", None) or getattr(error, "reason", "") or error).split())
    where = f"{_line(mark)}: " if mark is not None else ""
    if "'\\t'" in problem:
        return f"{where}a tab; YAML is indented with spaces"
    if "another document" in problem or "expected a single document" in str(error):
        return f"{where}a second document; a job file holds exactly one"
    if isinstance(error, yaml.reader.ReaderError):
        return f"the character at position {error.position} is not allowed in YAML"
    return f"{where}not YAML: {problem}"
