"""Training that reports how many steps it had to do again after it was moved or stopped.

    steps_again.py FILE|FOLDER EPOCHS [ANYTHING]

FILE, or a file of the job in FOLDER, keeps the last step that was done, whichever process did it, and the most
that were done again at once. Accuracy rises by half of what is left every four epochs, for jobs that it ends.
"""

import os
import sys
from pathlib import Path

import coadapt
import torch
from torch.utils.data import DataLoader, TensorDataset


class Count:
    """Steps that were done, which a checkpoint keeps."""

    steps = 0

    def state_dict(self) -> dict[str, int]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.steps = state["steps"]


def seen() -> tuple[int, int]:
    """Return the last step that any process has done, and the most that were done again at once."""
    done, again = (file.read_text() if file.exists() else "0 0").split()
    return int(done), int(again)


torch.manual_seed(0)
file, epochs = Path(sys.argv[1]), int(sys.argv[2])
if file.is_dir():
    file /= os.environ.get("COADAPT_JOB_ID", "alone")
trains = os.environ.get("COADAPT_MODE") == "train"  # a profile run begins anew, which loses nothing
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
count = Count()
loader = DataLoader(TensorDataset(torch.randn(2048, 8)), batch_size=128, shuffle=True)
model, optimizer, loader, count = coadapt.prepare(model, optimizer, loader, count)
for epoch in coadapt.epochs(epochs):
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count.steps += 1
        if trains and coadapt.rank() == 0:
            done, again = seen()
            beside = file.with_suffix(".new")
            beside.write_text(f"{count.steps} {max(again, done - count.steps + 1)}")
            beside.replace(file)
    figures = {"accuracy": 1 - 0.5 ** ((epoch + 1) / 4), "steps": count.steps, "steps_again": seen()[1]}
    coadapt.report(combine=dict.fromkeys(figures, "last"), **figures)
