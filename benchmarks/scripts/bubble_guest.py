"""Trials that train as one on an emulated GPU, until FOLDER/stop is there.

    python bubble_guest.py FOLDER STAGE LAYER_MS BESIDE

`COADAPT_HYPERPARAMETERS` has the trials, and `COADAPT_BUBBLES` the gate where it is a guest. It leaves
FOLDER/guest-STAGE.json: its steps, when its kernels ran, and how long it trained.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import coadapt
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.scripts.paced_kernels import PacedKernels

LAYERS, WIDTH, BATCH = 6, 16, 32


class PacedLayer(nn.Linear):
    """A layer whose passes take their time on the emulated GPU: twice as long backward as forward."""

    kernels: PacedKernels
    forward_s: float

    def forward(self, x: Tensor) -> Tensor:
        self.kernels.run(self.forward_s)
        found = super().forward(x)
        if found.grad_fn is not None:
            found.grad_fn.register_prehook(lambda _: self.kernels.run(2 * self.forward_s))
        return found


def main() -> None:
    folder, stage, layer_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]) / 1000
    torch.set_num_threads(1)
    torch.manual_seed(0)
    PacedLayer.kernels, PacedLayer.forward_s = (
        PacedKernels(folder / f"gpu-{stage}", 1, float(sys.argv[4])),
        layer_s,
    )
    hp = coadapt.hyperparameters(lr=0.1)
    layers = [one for _ in range(LAYERS) for one in (PacedLayer(WIDTH, WIDTH), nn.ReLU())]
    model = nn.Sequential(*layers, PacedLayer(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=hp.lr)
    x = torch.randn(BATCH * 8, WIDTH)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), BATCH)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    (folder / f"ready-{stage}").touch()
    steps, began_s = 0, time.monotonic()
    for _ in coadapt.epochs(1_000_000):
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            steps += 1
            if (folder / "stop").exists():
                found = {"steps": steps, "took_s": time.monotonic() - began_s, "runs": PacedLayer.kernels.runs}
                (folder / f"guest-{stage}.json").write_text(json.dumps(found))
                return


if __name__ == "__main__":
    main()
