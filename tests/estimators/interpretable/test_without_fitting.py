"""Fitted models serve without the libraries that fit them; fitting says in a sentence what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from coadapt.estimators.interpretable import model_file, tree_fit
from coadapt.estimators.interpretable.corrections import Monotone
from coadapt.estimators.interpretable.model_file import Kept

from tests.support.interpretable import additive, table

PROGRAM = """
import sys
from pathlib import Path

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("interpret", "sklearn", "optuna", "xgboost"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import numpy as np
from coadapt.estimators.interpretable import additive_fit, code, counterfactual, model_file
from coadapt.estimators.interpretable.table import Table, named
from coadapt.scheduler.services import catalogue

for name in ("additive", "tree"):
    model = model_file.read(Path(sys.argv[1]) / f"{name}.json").model
    row = np.ones((1, len(model.features)))
    print(float(model.predict(row)[0]), repr(model.explain(row[0]))[:3], len(code.exported(model, "c")) > 99)
near = counterfactual.nearest(named("a"), np.arange(3.0)[:, None], np.ones(3), np.zeros(1), 1.0, 2)
print([one.row for one in near])
try:
    additive_fit.fit(Table(named("ab"), np.eye(2), np.arange(2.0)), tails=None)
except ValueError as error:
    print(error)
"""


def test_predictions_need_no_library_that_fits(tmp_path: Path) -> None:
    kept = {"additive": Kept(additive(), (Monotone("gpus", pairs="keep"),)), "tree": Kept(tree_fit.fit(table()))}
    for name, one in kept.items():
        model_file.write(tmp_path / f"{name}.json", one)
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    for line, one in zip(lines, kept.values(), strict=False):
        value = float(one.model.predict([[1.0] * len(one.model.features)])[0])  # type: ignore[arg-type]
        assert line.startswith(f"{value} ")
        assert line.endswith(" True")
    assert lines[2:] == ["[0, 1]", "interpret-core: is not installed; `pip install coadapt[learned]` brings it"]
