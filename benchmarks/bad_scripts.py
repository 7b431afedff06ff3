"""Scripts that do not do what a training script does, each with the one line its user reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """`reason` is what `coadapt list --json` and `describe` say of the failed job; `{script}` is its file."""

    what: str
    reason: str
    lines: Mapping[str, str] = field(default_factory=dict)
    training: str = ""  # more fields of `training:`

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
    BadScript(
        "exits 0 before prepare", "{script} never called coadapt.prepare", {"prepare": "raise SystemExit(0)"}
    ),
    BadScript("ends before prepare", "{script} never called coadapt.prepare", {"prepare": "", "train": ""}),
    BadScript(
        "never takes a step",
        "{script} took no training step",
        {"train": "for epoch in coadapt.epochs(3):\n    coadapt.report(loss=1.0)"},
    ),
    BadScript(
        "never asks for an epoch",
        "{script} never iterated coadapt.epochs",
        {"train": "print('prepared and done')"},
    ),
    BadScript(
        "exits 0 early",
        "{script} ended after epoch 2 of 1000",
        {"epoch_end": "if epoch == 2: raise SystemExit(0)"},
    ),
    BadScript("leaves without a word", "{script} exited with status 7", {"epoch_end": "import os; os._exit(7)"}),
    BadScript(
        "is killed by a signal",
        ("lost again and again without progress: the worker of rank 0 on node N was killed by SIGSEGV"),
        {"epoch_end": "import os; os.kill(os.getpid(), 11)"},
    ),
    BadScript(
        "hangs in the data",
        "lost again and again without progress: the worker of rank 0 on node N hangs",
        {"epoch_end": "import time; time.sleep(1e6)"},
        "hang_timeout_s: 3",
    ),
    BadScript(
        "prepares twice",
        "RuntimeError: prepare: called twice; give everything to one call",
        {"train": "coadapt.prepare(model, optimizer, loader)"},
    ),
    BadScript(
        "no model",
        "ValueError: prepare: 0 models given, exactly one is needed",
        {"prepare": "coadapt.prepare(optimizer, loader)"},
    ),
    BadScript(
        "two loaders",
        ("ValueError: prepare: 2 DataLoaders given, exactly one is needed: the one of the training data"),
        {"prepare": "coadapt.prepare(model, optimizer, loader, DataLoader(data))"},
    ),
    BadScript(
        "optimizer with a closure",
        ("ValueError: prepare: LBFGS evaluates the loss several times per step; use an optimizer without closure"),
        {"optimizer": "optimizer = torch.optim.LBFGS(model.parameters())"},
    ),
    BadScript(
        "optimizer of another model",
        ("ValueError: prepare: SGD holds parameters that are not the model's; make it of model.parameters()"),
        {"optimizer": "optimizer = torch.optim.SGD(torch.nn.Linear(4, 1).parameters(), lr=0.1)"},
    ),
    BadScript(
        "loader without a batch size",
        (
            "ValueError: prepare: the DataLoader's batch_size is None; give it a batch_size "
            "instead of a batch_sampler or of batching in the dataset"
        ),
        {"loader": "loader = DataLoader(data, batch_size=None)"},
    ),
    BadScript(
        "empty dataset",
        "{script} took no training step",
        {"data": "data = TensorDataset(torch.zeros(0, 4), torch.zeros(0, 1))"},
    ),
    BadScript(
        "metric that is no number",
        "ValueError: could not convert string to float: 'low'",
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
