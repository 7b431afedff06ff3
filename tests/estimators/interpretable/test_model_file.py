"""Model files: read back to the bit, and whatever is wrong with one is told in one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coadapt.estimators.interpretable import model_file, tree_fit
from coadapt.estimators.interpretable.additive import AdditiveModel
from coadapt.estimators.interpretable.corrections import ByHand, Monotone
from coadapt.estimators.interpretable.model_file import Kept
from coadapt.estimators.interpretable.tree import TreeModel
from hypothesis import given
from hypothesis import strategies as st

from tests.support.interpretable import additive, rows, table


@given(st.integers(0, 5000))
def test_numbers_are_read_as_they_were_to_the_bit(seed: int) -> None:
    model = additive(seed, link=("identity", "logit")[seed % 2])  # type: ignore[arg-type]
    again = model_file.of_json(json.loads(json.dumps(model_file.to_json(model))))
    assert isinstance(again, AdditiveModel)
    assert (again.predict(rows(50, seed)) == model.predict(rows(50, seed))).all()


def test_a_file_holds_the_fit_and_the_corrections_beside_each_other(tmp_path: Path) -> None:
    kept = Kept(additive(), (Monotone("gpus", pairs="drop"), ByHand({"owner": "bob"}, 0.5)), {"rows": 400})
    path = tmp_path / "models" / "hours.json"
    model_file.write(path, kept)
    found = model_file.read(path)
    assert (found.corrections, found.about) == (kept.corrections, kept.about)
    asked = rows()
    assert (found.fitted.predict(asked) == kept.fitted.predict(asked)).all()
    assert (found.model.predict(asked) == kept.model.predict(asked)).all()
    assert (found.model.predict(asked) != found.fitted.predict(asked)).any()
    assert [one.name for one in path.parent.iterdir()] == ["hours.json"]


def test_a_tree_of_classes_is_read_as_it_was(tmp_path: Path) -> None:
    of = table(classes=("short", "long"))
    kept = Kept(tree_fit.fit(of))
    model_file.write(tmp_path / "tree.json", kept)
    found = model_file.read(tmp_path / "tree.json").model
    assert isinstance(found, TreeModel)
    assert (found.probabilities(of.rows) == kept.model.probabilities(of.rows)).all()  # type: ignore[union-attr]
    assert (found.cost, found.classes, found.target) == ("error", ("short", "long"), "hours")


def changed(document: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Return a document with a change and the digest that goes with it."""
    change(document)
    content = {key: document.get(key) for key in ("model", "corrections", "about")}
    return {**document, "sha256": model_file.digest(content)}


def _set(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        at: Any = document
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = value

    return change


BAD: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (_set("model", "terms", 0, "edges", 0, value=[3, 2, 1, 4, 5]),
     "term: edges are not accepted, must be finite and in ascending order"),
    (_set("model", "terms", 0, "edges", 0, value=[1, 2]),
     "term: scores of shape (7,) are not accepted, must be of (4,)"),
    (_set("model", "terms", 1, "features", value=[9]),
     "model: a term is of features (9,), and there are 3"),
    (_set("model", "terms", 0, "scores", value=["a"] * 7),
     "model: a list of numbers is ragged or holds no numbers"),
    (_set("model", "kind", value="net"), "model: is of kind 'net'; accepted: additive, tree"),
    (_set("model", "features", 1, "name", value="load"), "model: two of its features have one name"),
    (_set("model", "mean", value=None),
     "model: is no such document: TypeError: float() argument must be a string or a real number, not 'NoneType'"),
    (_set("model", "link", value="log"), "model: link 'log' does not go with 0 classes"),
    (_set("corrections", value=[{"monotone": "gpu"}]), "feature: 'gpu' is unknown; the nearest is 'gpus'"),
    (_set("corrections", value=None), "corrections: are no list"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), BAD)
def test_documents_that_are_no_model_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    path = tmp_path / "model.json"
    model_file.write(path, Kept(additive(pairs=0)))
    path.write_text(json.dumps(changed(json.loads(path.read_text()), change)))
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {sentence}')}$"):
        model_file.read(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is torn or no model: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "is no model file"),
        ('{"format": "coadapt-model", "version": 2}', "is of version 2, and 1 is accepted"),
        ('{"format": "coadapt-model", "version": 1, "model": NaN}', "holds NaN or infinity, which no model has"),
        ('{"format": "coadapt-model", "version": 1, "model": 5}', "is torn or was changed, its digest differs"),
        ("[" * 100_000, "is torn or no model: "),
    ],
)
def test_texts_that_are_no_file_of_ours_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {sentence}')}"):
        model_file.read(path)


def test_torn_large_and_missing_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    with pytest.raises(ValueError, match=r"cannot be read: No such file or directory$"):
        model_file.read(path)
    model_file.write(path, Kept(additive()))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"model\.json: is torn or no model: "):
        model_file.read(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"is torn or no model: it is no text$"):
        model_file.read(path)
    with path.open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    with pytest.raises(ValueError, match=r"has 67,108,865 bytes, and at most 67,108,864 are accepted$"):
        model_file.read(path)


def test_a_model_with_a_number_that_is_not_finite_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a model with NaN or infinity is not kept$"):
        model_file.write(tmp_path / "m.json", Kept(additive(), about={"error": np.nan}))
    assert not list(tmp_path.iterdir())
