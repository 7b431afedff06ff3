"""A model as a program text: C, JavaScript, SQL or Python, that needs nothing of ours. Pure.

Where a feature is whole, its thresholds are whole numbers: `x <= 12` decides like `x <= 12.5`.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Callable, Sequence

from .additive import AdditiveModel, Term
from .corrections import Model
from .table import Feature, Floats
from .tree import KNOWN, TreeModel

LANGUAGES = ("c", "javascript", "python", "sql")
MOST_DEEP = 90  # tests of a tree within each other: Python accepts no more than 100
_WORDS = {
    "double",
    "float",
    "int",
    "long",
    "return",
    "function",
    "switch",
    "case",
    "void",
    "const",
    "static",
    "var",
}


def exported(model: Model, language: str, name: str = "predict") -> str:
    """Return the model as the text of a program.

    The function takes the features in order, as an array: NaN, or NULL of a column in SQL, is what is missing. It
    returns the prediction; the probability of the second class; or the class of a tree (in C its position).

    Raises:
        ValueError: in one sentence, for another language, a name that is none, and a tree that is too deep.
    """
    if language not in LANGUAGES:
        raise ValueError(f"language: {language!r} is not accepted, must be one of {', '.join(LANGUAGES)}")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or keyword.iskeyword(name) or name in _WORDS:
        raise ValueError(f"name: {name!r} is not accepted, must be a name that a function can have")
    if isinstance(model, TreeModel) and model.depth > MOST_DEEP:
        raise ValueError(f"tree: is {model.depth} tests deep, and at most {MOST_DEEP} can be exported; prune it")
    if language == "sql":
        sum_or_tree = _sql_sum(model) if isinstance(model, AdditiveModel) else _sql_tree(model, 0)
        return f"{_about(model, '--')}\n{sum_or_tree}\n"
    if isinstance(model, AdditiveModel):
        return {"c": _c_sum, "javascript": _javascript_sum, "python": _python_sum}[language](model, name)
    return {"c": _c_tree, "javascript": _javascript_tree, "python": _python_tree}[language](model, name)


def _about(model: Model, mark: str) -> str:
    lines = [f"Predicts {_plain(model.target)}. Features in order:"]
    for number, one in enumerate(model.features):
        codes = "".join(f", {code} = {_plain(text)}" for code, text in enumerate(one.categories))
        lines.append(f"  {number}: {_plain(one.name)}{' (category' + codes + ')' if codes else ''}")
    if model.classes:
        lines.append(f"Classes in order: {', '.join(map(_plain, model.classes))}")
    return "\n".join(f"{mark} {line}" for line in lines)


def _plain(text: str) -> str:
    """Return a text that ends no comment: one line of printable characters."""
    return re.sub(r"[^ -~]|\*/|\?\?/", "_", text).rstrip("\\")  # ??/ is a backslash in old C


def _number(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))


def _real(value: float) -> str:
    return repr(float(value))


def _threshold(feature: Feature, at: float) -> str:
    """Return the threshold of `x <= at`."""
    if feature.whole and at == KNOWN:
        return str(2**63 - 1)
    return _number(math.floor(at) if feature.whole else at)


def _edge(feature: Feature, at: float) -> str:
    """Return the edge of `x >= at`."""
    return _number(math.ceil(at) if feature.whole and not feature.categories else at)


# --- trees --------------------------------------------------------------------------------------------------


def _branches(
    tree: TreeModel,
    test: Callable[[Feature, int, str, bool], str],
    answer: Callable[[int], str],
    style: Sequence[str],
) -> str:
    """Return nested branches. style: texts around a test, between the branches, and behind them."""
    opening, middle, end = style

    def text(node: int, deep: int) -> str:
        indent = "    " * deep
        if tree.feature[node] < 0:
            return f"{indent}{answer(node)}\n"
        number = int(tree.feature[node])
        of = tree.features[number]
        asked = test(of, number, _threshold(of, float(tree.threshold[node])), bool(tree.missing_left[node]))
        left, right = text(int(tree.left[node]), deep + 1), text(int(tree.right[node]), deep + 1)
        closing = f"{indent}{end}\n" if end else ""
        return f"{indent}{opening.format(asked)}\n{left}{indent}{middle}\n{right}{closing}"

    return text(0, 1)


def _likeliest(tree: TreeModel, node: int) -> int:
    return int(tree.values[node].argmax())


def _c_tree(tree: TreeModel, name: str) -> str:
    used = {int(f) for f in tree.feature if f >= 0}
    # Whole numbers cannot be missing, so a tree that asks whether a value is known takes real ones.
    whole = all(tree.features[f].whole for f in used) and not (tree.threshold[tree.feature >= 0] == KNOWN).any()
    kind = "long long" if whole else "double"

    def test(_: Feature, number: int, at: str, missing_left: bool) -> str:
        if whole:
            return f"x[{number}] <= {at}"
        return f"!(x[{number}] > {at})" if missing_left else f"x[{number}] <= {at}"

    def answer(node: int) -> str:
        return f"return {_likeliest(tree, node)};" if tree.classes else f"return {_real(tree.values[node, 0])};"

    body = _branches(tree, test, answer, ("if ({}) {{", "} else {", "}"))
    note = "/* All features that are tested are whole, and none can be missing. */\n" if whole else ""
    result = "int" if tree.classes else "double"
    return f"{_about(tree, '//')}\n{note}{result} {name}(const {kind} *x) {{\n{body}}}\n"


def _javascript_tree(tree: TreeModel, name: str) -> str:
    def test(_: Feature, number: int, at: str, missing_left: bool) -> str:
        return f"!(x[{number}] > {at})" if missing_left else f"x[{number}] <= {at}"

    def answer(node: int) -> str:
        value = json.dumps(tree.classes[_likeliest(tree, node)]) if tree.classes else _real(tree.values[node, 0])
        return f"return {value};"

    body = _branches(tree, test, answer, ("if ({}) {{", "} else {", "}"))
    return f"{_about(tree, '//')}\nfunction {name}(x) {{\n{body}}}\n"


def _python_tree(tree: TreeModel, name: str) -> str:
    def test(_: Feature, number: int, at: str, missing_left: bool) -> str:
        return f"not x[{number}] > {at}" if missing_left else f"x[{number}] <= {at}"

    def answer(node: int) -> str:
        value = ascii(tree.classes[_likeliest(tree, node)]) if tree.classes else _real(tree.values[node, 0])
        return f"return {value}"

    return f"{_about(tree, '#')}\ndef {name}(x):\n{_branches(tree, test, answer, ('if {}:', 'else:', ''))}"


def _sql_tree(tree: TreeModel, node: int) -> str:
    if tree.feature[node] < 0:
        return _sql_text(tree.classes[_likeliest(tree, node)]) if tree.classes else _real(tree.values[node, 0])
    of = tree.features[int(tree.feature[node])]
    column = _sql_name(of.name)
    asked = f"{column} <= {_threshold(of, float(tree.threshold[node]))}"
    if tree.missing_left[node]:
        asked += f" OR {column} IS NULL"
    left, right = (_sql_tree(tree, int(child[node])) for child in (tree.left, tree.right))
    return f"CASE WHEN {asked} THEN {left} ELSE {right} END"


# --- sums ---------------------------------------------------------------------------------------------------


def _edges(model: AdditiveModel, term: Term) -> list[list[str]]:
    return [
        [_edge(model.features[f], float(at)) for at in edges]
        for f, edges in zip(term.features, term.edges, strict=True)
    ]


def _place(model: AdditiveModel, term: Term, bins: Sequence[str]) -> str:
    """Return the place of a score among those of its term, from the bin of each feature."""
    return bins[0] if len(bins) == 1 else f"{bins[0]} * {term.scores.shape[1]} + {bins[1]}"


def _c_sum(model: AdditiveModel, name: str) -> str:
    lines = [_about(model, "//"), "#include <math.h>", ""]
    lines += [
        f"static int {name}_bin(const double *edges, int count, double codes, double x) {{",
        "    int low = 0, high = count;",
        "    if (isnan(x) || (codes > 0 && !(x >= 0 && x < codes))) return 0;",
        "    while (low < high) {",
        "        int middle = (low + high) / 2;",
        "        if (edges[middle] <= x) low = middle + 1; else high = middle;",
        "    }",
        "    return low + 1;",
        "}",
        "",
        f"double {name}(const double *x) {{",
        f"    double sum = {_real(model.mean)};",
    ]
    for number, term in enumerate(model.terms):
        bins = []
        for axis, (feature, edges) in enumerate(zip(term.features, _edges(model, term), strict=True)):
            table = f"edges_{number}_{axis}"
            lines.append(f"    static const double {table}[] = {{{', '.join(edges) or '0'}}};")
            codes = len(model.features[feature].categories)
            bins.append(f"{name}_bin({table}, {len(edges)}, {codes}, x[{feature}])")
        scores = ", ".join(_real(score) for score in term.scores.ravel())
        lines.append(f"    static const double scores_{number}[] = {{{scores}}};")
        lines.append(f"    sum += scores_{number}[{_place(model, term, bins)}];")
    lines += [f"    return {'1 / (1 + exp(-sum))' if model.link == 'logit' else 'sum'};", "}", ""]
    return "\n".join(lines)


def _javascript_sum(model: AdditiveModel, name: str) -> str:
    lines = [_about(model, "//"), f"function {name}(x) {{"]
    lines += [
        "    function bin(edges, codes, value) {",
        "        if (!(value === value) || (codes > 0 && !(value >= 0 && value < codes))) return 0;",
        "        let low = 0, high = edges.length;",
        "        while (low < high) {",
        "            const middle = (low + high) >> 1;",
        "            if (edges[middle] <= value) low = middle + 1; else high = middle;",
        "        }",
        "        return low + 1;",
        "    }",
        f"    let sum = {_real(model.mean)};",
    ]
    for term in model.terms:
        bins = _bins(model, term)
        scores = ", ".join(_real(score) for score in term.scores.ravel())
        lines.append(f"    sum += [{scores}][{_place(model, term, bins)}];")
    lines += [f"    return {'1 / (1 + Math.exp(-sum))' if model.link == 'logit' else 'sum'};", "}", ""]
    return "\n".join(lines)


def _python_sum(model: AdditiveModel, name: str) -> str:
    lines = [_about(model, "#"), "import bisect", "import math", "", "", f"def {name}(x):"]
    lines += [
        "    def bin(edges, codes, value):",
        "        if value != value or (codes > 0 and not 0 <= value < codes):",
        "            return 0",
        "        return bisect.bisect_right(edges, value) + 1",
        "",
        f"    total = {_real(model.mean)}",
    ]
    for term in model.terms:
        scores = ", ".join(_real(score) for score in term.scores.ravel())
        lines.append(f"    total += [{scores}][{_place(model, term, _bins(model, term))}]")
    lines += [f"    return {'1 / (1 + math.exp(-total))' if model.link == 'logit' else 'total'}", ""]
    return "\n".join(lines)


def _bins(model: AdditiveModel, term: Term) -> list[str]:
    return [
        f"bin([{', '.join(edges)}], {len(model.features[feature].categories)}, x[{feature}])"
        for feature, edges in zip(term.features, _edges(model, term), strict=True)
    ]


def _sql_sum(model: AdditiveModel) -> str:
    parts = [_real(model.mean)]
    for term in model.terms:
        edges = _edges(model, term)

        def cases(axis: int, scores: Floats, term: Term = term, edges: list[list[str]] = edges) -> str:
            if not scores.ndim:
                return _real(float(scores))
            of = model.features[term.features[axis]]
            column, codes = _sql_name(of.name), len(of.categories)
            missing = f"{column} IS NULL" + (f" OR {column} < 0 OR {column} >= {codes}" if codes else "")
            when = [f"WHEN {missing} THEN {cases(axis + 1, scores[0])}"]
            when += [
                f"WHEN {column} < {edge} THEN {cases(axis + 1, scores[i + 1])}"
                for i, edge in enumerate(edges[axis])
            ]
            return f"CASE {' '.join(when)} ELSE {cases(axis + 1, scores[-1])} END"

        parts.append(cases(0, term.scores))
    total = "\n + ".join(parts)
    return f"1.0 / (1.0 + EXP(-({total})))" if model.link == "logit" else total


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _sql_name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
