"""Lines of a training script at which each replica would decide by its own samples whether training ends.

Only the text is read. What cannot be followed, such as values that go through attributes of other objects, is no
finding. A decision that replicas do not share is told again when they differ.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_SHARED = frozenset({"combine"})  # what these return is the same on all replicas
# The same on all replicas, or of a failure and not of progress.
_PLAIN = frozenset({"len", "size", "numel", "isnan", "isfinite", "isinf", "is_main"})
_LOADERS = ("DataLoader", "StatefulDataLoader", "batches")
_COUNTED = frozenset({"epochs", "steps"})
_TAKES = frozenset({"iter", "enumerate", "zip", "cycle", "tqdm"})  # give training data anew
_EXITS = frozenset({"exit", "_exit", "quit"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ADDS = frozenset({"append", "extend", "add", "update", "insert"})


@dataclass(frozen=True)
class Decision:
    """A `line` that ends training by the value of `name`."""

    line: int
    name: str

    def __str__(self) -> str:
        return (
            f'line {self.line} ends training by "{self.name}", which follows what each replica computes of its '
            "own samples: coadapt.combine(value) makes a value the same on all replicas"
        )


def unshared_decisions(script: Path) -> list[Decision]:
    """Find such decisions in one file, by line. A file that cannot be read as Python has none."""
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    walk = _Walk(_Script.of(tree))
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For) and _calls(loop.iter) & _COUNTED:
            walk.loop(loop.body)
    return sorted(walk.decisions, key=lambda decision: (decision.line, decision.name))


@dataclass(frozen=True)
class _Script:
    """`data`: names of what batches of the training data come from; `sharing`: functions that combine values."""

    data: frozenset[str]
    sharing: frozenset[str]

    @classmethod
    def of(cls, tree: ast.AST) -> _Script:
        given, loaders, sharing = set[str](), set[str](), set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) == "prepare":
                given |= _names(node.args)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                if _name(node.value.func) in _LOADERS:
                    loaders |= _names(node.targets)
            elif isinstance(node, ast.FunctionDef) and _calls(node) & _SHARED:
                sharing.add(node.name)
        data = given & loaders
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            if _name(node.value.func) in _TAKES and _names(_given(node.value)) & data:
                data |= _names(node.targets)
        return cls(frozenset(data), frozenset(sharing))


class _Walk:
    """One loop over epochs or steps, read in the order in which it runs.

    `local`: names whose values are of a replica's own samples where the walk is.
    """

    def __init__(self, script: _Script) -> None:
        self.decisions = set[Decision]()
        self._script = script
        self._local = set[str]()

    def loop(self, body: Sequence[ast.stmt], by_local: bool = False) -> None:
        """Read a loop's body until nothing new is local: what a line changes is read above it the next time."""
        before = set[str]()
        while True:
            self._statements(body, by_local)
            self._local |= before  # it may have ended before, or not have run
            if self._local == before:
                return
            before = set(self._local)

    def _statements(self, body: Iterable[ast.stmt], by_local: bool) -> None:
        """Walk statements. `by_local`: whether these run is decided by a local value."""
        for node in body:
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                self._assigned(node, by_local)
            elif isinstance(node, ast.Expr):
                self._added(node.value)
            elif isinstance(node, (ast.For, ast.AsyncFor)):
                self._taken(node)
                self.loop(node.body, by_local)
                self._statements(node.orelse, by_local)
            elif isinstance(node, ast.While):
                self.loop(node.body, by_local or bool(self._read(node.test)))
            elif isinstance(node, ast.If):
                self._branch(node, by_local)
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                self._statements(node.body, by_local)
            elif isinstance(node, ast.Try):
                for part in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
                    self._statements(part, by_local)

    def _assigned(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, by_local: bool) -> None:
        if node.value is None:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if by_local or self._is_local(node.value):
            self._local |= _names(targets)
        elif not isinstance(node, ast.AugAssign):
            self._local -= {name for target in targets for name in _whole(target)}

    def _added(self, value: ast.expr) -> None:
        """Follow `losses.append(loss)` and its like."""
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return
        if value.func.attr in _ADDS and any(self._is_local(given) for given in value.args):
            self._local |= _names([value.func])

    def _taken(self, node: ast.For | ast.AsyncFor) -> None:
        if _names([node.iter]) & self._script.data:
            self._local |= _batch_names(node)
        elif self._read(node.iter):
            self._local |= _names([node.target])
        else:
            self._local -= _names([node.target])

    def _branch(self, node: ast.If, by_local: bool) -> None:
        decided = self._read(node.test)
        if decided and any(_ends(inner) for inner in _inside(node.body)):
            self.decisions.add(Decision(node.lineno, min(decided)))
        before = set(self._local)
        self._statements(node.body, by_local or bool(decided))
        after, self._local = self._local, before
        self._statements(node.orelse, by_local or bool(decided))
        self._local |= after

    def _read(self, value: ast.expr) -> set[str]:
        return _read(value, self._script) & self._local

    def _is_local(self, value: ast.expr) -> bool:
        """Return whether a value is of a replica's samples: by its names, a function or a training loop."""
        if self._read(value):
            return True
        data = self._script.data
        return any(
            (
                isinstance(node, ast.Call)
                and _name(node.func) not in _TAKES
                and (_names(_given(node)) & data or _name(node.func) in data)
            )
            or (isinstance(node, _COMPREHENSIONS) and _names(part.iter for part in node.generators) & data)
            for node in _unshared(value, self._script)
        )


def _batch_names(loop: ast.For | ast.AsyncFor) -> set[str]:
    """Return names of a batch, without the number that `enumerate` gives it."""
    target = loop.target
    if isinstance(loop.iter, ast.Call) and _name(loop.iter.func) == "enumerate" and isinstance(target, ast.Tuple):
        return _names(target.elts[1:])
    return _names([target])


def _read(value: ast.AST, script: _Script) -> set[str]:
    """Return names that a value is made of, without those of which only what all replicas share is taken."""
    found = set[str]()
    for node in _unshared(value, script):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "self":
            found.add(f"self.{node.attr}")
    return found - {"self"}


def _unshared(value: ast.AST, script: _Script) -> Iterator[ast.AST]:
    """Yield the nodes of an expression, without those that stand in what is the same on all replicas."""
    if isinstance(value, ast.Call) and _name(value.func) in script.sharing | _SHARED | _PLAIN:
        return
    if isinstance(value, ast.Attribute) and value.attr == "shape":
        return
    # Inside a comprehension its own names stand for what it goes over, whatever they stand for around it.
    own = _names(part.target for part in value.generators) if isinstance(value, _COMPREHENSIONS) else set()
    yield value
    for child in ast.iter_child_nodes(value):
        for node in _unshared(child, script):
            if not (isinstance(node, ast.Name) and node.id in own):
                yield node


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _names(values: Iterable[ast.expr]) -> set[str]:
    """Return names that stand in these expressions; `self.loss` is one, and so is `loss` of `loss[0]`."""
    found = set[str]()
    for value in values:
        for node in ast.walk(value):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "self":
                found.add(f"self.{node.attr}")
            elif isinstance(node, ast.Name) and node.id != "self":
                found.add(node.id)
    return found


def _whole(target: ast.expr) -> Iterator[str]:
    """Yield the names that an assignment gives new values; none where it changes a part, as `best["loss"]`."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute) and getattr(target.value, "id", None) == "self":
        yield f"self.{target.attr}"
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _whole(part)


def _inside(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all nodes of these statements, without those of functions and of loops among them."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.For, ast.While)):
            yield node
            waiting += ast.iter_child_nodes(node)


def _ends(node: ast.AST) -> bool:
    return isinstance(node, (ast.Break, ast.Return)) or (isinstance(node, ast.Call) and _name(node.func) in _EXITS)


def _calls(value: ast.AST) -> set[str]:
    return {_name(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)}


def _name(function: ast.expr) -> str:
    """Return the last part of what is called: `combine` of `coadapt.combine`."""
    return getattr(function, "attr", getattr(function, "id", ""))
