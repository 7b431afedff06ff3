"""Scripts that do not do what a training script does, or end early, each with the one line its user reads."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# A sound training script; a bad one replaces some of its lines.
SOUND = {
    "imports": "import coadapt, torch\nfrom torch.utils.data import DataLoader, TensorDataset",
    "data": "data = TensorDataset(torch.randn(256, 4), torch.randn(256, 1))",
    "loader": "loader = DataLoader(data, batch_size=16)",
    "model": "model = torch.nn.Linear(4, 1)",
    "optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "prepare": "model, optimizer, loader = coadapt.prepare(model, optimizer, loader)",
    "train": """for epoch in coadapt.epochs(1000):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    EPOCH_END""",
    "end": "",
}


@dataclass(frozen=True)
class BadScript:
    """`reason` is what `coadapt list --json` and `describe` say of the ended job; `{script}` is its file."""

    what: str
    reason: str
    lines: Mapping[str, str] = field(default_factory=dict)
    training: str = ""  # more fields of `training:`
    ends: Literal["failed", "succeeded", "refused"] = "failed"  # refused: by `coadapt submit`, with `reason`
    max_failures: int = 0
    failures: int = 1  # of its script until it is given up; signals and hangs are losses of a worker

    @property
    def script(self) -> str:
        parts = SOUND | {"end": ""} | dict(self.lines)
        epoch_end = parts.pop("epoch_end", "pass")
        return "\n".join(parts.values()).replace("EPOCH_END", epoch_end) + "\n"


BAD_SCRIPTS = [
    BadScript("raises", "RuntimeError: no data in /data", {"data": 'raise RuntimeError("no data in /data")'}),
    BadScript(
        "imports what is not there", "ModuleNotFoundError: No module named 'numpyy'", {"imports": "import numpyy"}
    ),
    BadScript("exits with a status", "{script} exited with status 3", {"data": "raise SystemExit(3)"}),
    BadScript("ends before prepare", "{script} never called coadapt.prepare", {"data": "raise SystemExit(0)"}),
    BadScript(
        "has no prepare",
        "script: {script} imports coadapt and never calls coadapt.prepare; give its model, optimizer and loader "
        "to coadapt.prepare, or say elastic: false to run it as it is",
        {"prepare": ""},
        ends="refused",
    ),
    BadScript(
        "knows no coadapt",
        "script: {script} never imports coadapt; give its model, optimizer and loader to coadapt.prepare, or say "
        "elastic: false to run it as it is",
        {"imports": "import torch", "data": "", "loader": "", "prepare": "", "train": "print('trained')"},
        ends="refused",
    ),
    BadScript(
        "fails alike at each start",
        "RuntimeError: no data in /data",
        {"data": 'raise RuntimeError("no data in /data")'},
        max_failures=9,
        failures=2,
    ),
    BadScript(
        "fails alike at the same epoch",
        "ValueError: epoch 2",
        {"epoch_end": "if epoch == 2: raise ValueError('epoch 2')"},
        max_failures=9,
        failures=2,
    ),
    BadScript(
        "never takes a step",
        "{script} took no training step",
        {"train": "for epoch in coadapt.epochs(3):\n    coadapt.report(loss=1.0)"},
    ),
    BadScript(
        "never asks for an epoch",
        "{script} never iterated coadapt.epochs or coadapt.steps",
        {"train": "print('prepared and done')"},
    ),
    BadScript(
        "exits 0 early",
        "ended by itself after epoch 3 of 1000",
        {"epoch_end": "if epoch == 2: raise SystemExit(0)"},
        ends="succeeded",
    ),
    BadScript(
        "breaks out of the epochs",
        "ended by itself after epoch 3 of 1000",
        {"epoch_end": "if epoch == 2: break"},
        ends="succeeded",
    ),
    BadScript(
        "returns early",
        "ended by itself after epoch 3 of 1000",
        {
            "train": "def train():\n" + textwrap.indent(SOUND["train"], "    ") + "\ntrain()",
            "epoch_end": "if epoch == 2: return",
        },
        ends="succeeded",
    ),
    BadScript("leaves without a word", "{script} exited with status 7", {"epoch_end": "import os; os._exit(7)"}),
    BadScript(
        "is killed by a signal",
        ("lost again and again without progress: the worker of rank 0 on node N was killed by SIGSEGV"),
        {"epoch_end": "import os; os.kill(os.getpid(), 11)"},
        failures=0,
    ),
    BadScript(
        "hangs in the data",
        "lost again and again without progress: the worker of rank 0 on node N hangs",
        {"epoch_end": "import time; time.sleep(1e6)"},
        "hang_timeout_s: 3",
        failures=0,
    ),
    BadScript(
        "prepares twice",
        "RuntimeError: prepare: called twice; give everything to one call",
        {"train": "coadapt.prepare(model, optimizer, loader)"},
    ),
    BadScript(
        "no model",
        "ValueError: prepare: 0 models given, at least one is needed",
        {"prepare": "coadapt.prepare(optimizer, loader)"},
    ),
    BadScript(
        "two loaders",
        "ValueError: prepare: 2 DataLoaders given, exactly one is needed: the one of the training data; a loop "
        "that draws its own batches gives coadapt.batches(function)",
        {"prepare": "coadapt.prepare(model, optimizer, loader, DataLoader(data))"},
    ),
    BadScript(
        "optimizer with a closure",
        "ValueError: prepare: LBFGS evaluates the loss several times per step, and replicas would search along "
        "different lines; use another optimizer",
        {"optimizer": "optimizer = torch.optim.LBFGS(model.parameters())"},
    ),
    BadScript(
        "optimizer of another model",
        "ValueError: prepare: the model Linear has no parameter that requires a gradient and is optimized",
        {"optimizer": "optimizer = torch.optim.SGD(torch.nn.Linear(4, 1).parameters(), lr=0.1)"},
    ),
    BadScript(
        "empty dataset",
        "{script} took no training step",
        {"data": "data = TensorDataset(torch.zeros(0, 4), torch.zeros(0, 1))"},
    ),
    BadScript(
        "metric that is no number",
        "TypeError: report: loss is a str; a number or a tensor of one element is accepted",
        {"epoch_end": "coadapt.report(loss='low')"},
    ),
    BadScript(
        "loss that needs no gradient",
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
        {"epoch_end": "model(x).sum().detach().backward()"},
    ),
    BadScript(
        "a learning-rate rule that is not there",
        ("ValueError: lr_scaling: my_rules:half: module my_rules cannot be imported (No module named 'my_rules')"),
        {},
        "lr_scaling: my_rules:half",
    ),
]
