"""Training that writes the number of each step, its process and the time to a file.

    counted_steps.py FILE [SECONDS]

With SECONDS a checkpoint takes so long.
"""

import os
import sys
import time

import coadapt
import torch
from torch.utils.data import DataLoader, TensorDataset

SAVING_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0


class Count:
    """Steps that were done, which a checkpoint keeps."""

    steps = 0

    def state_dict(self) -> dict[str, int]:
        time.sleep(SAVING_S)
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.steps = state["steps"]


torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
count = Count()
loader = DataLoader(TensorDataset(torch.randn(512, 8)), batch_size=16, shuffle=True)
model, optimizer, loader, count = coadapt.prepare(model, optimizer, loader, count)
file = open(sys.argv[1], "a", buffering=1)  # noqa: SIM115 - open as long as the script
for _ in coadapt.epochs(100_000):
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count.steps += 1
        file.write(f"{count.steps} {os.getpid()} {time.time():.4f}\n")
    coadapt.report(loss=loss.item())
