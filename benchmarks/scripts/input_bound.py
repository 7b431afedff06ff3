"""Trains on samples that are read and prepared by loader workers, and logs what it saw and when.

Args: a folder, then JSON: samples, sample_bytes, epochs, batch, workers, prepare_s, step_s, cached, label.
"""

import json
import os
import random
import sys
import time
from pathlib import Path

import coadapt
import torch
from torch.utils.data import DataLoader, Dataset

OUT, GIVEN = Path(sys.argv[1]), json.loads(sys.argv[2])


class Samples(Dataset):
    def __init__(self) -> None:
        self.epoch = 0
        self.read = coadapt.cached(self.load) if GIVEN["cached"] else self.load

    def load(self, index: int) -> bytes:
        with (OUT / f"reads-{os.getpid()}.txt").open("a") as log:
            log.write(f"{self.epoch} {index}\n")
        return bytes([GIVEN["label"]]) + index.to_bytes(4, "big") + bytes(GIVEN["sample_bytes"] - 5)

    def __len__(self) -> int:
        return GIVEN["samples"]

    def __getitem__(self, index: int) -> tuple[int, int, torch.Tensor]:
        sample = self.read(index)
        time.sleep(GIVEN["prepare_s"])
        assert int.from_bytes(sample[1:5], "big") == index
        return index, sample[0], torch.full((4,), index / GIVEN["samples"] + random.random())


torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = Samples()
loader = DataLoader(data, GIVEN["batch"], shuffle=True, num_workers=GIVEN["workers"])
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
with (OUT / f"steps-{os.getpid()}.txt").open("a") as log:
    for epoch in coadapt.epochs(GIVEN["epochs"]):
        data.epoch = epoch
        for indices, labels, inputs in loader:
            optimizer.zero_grad()
            loss = model(inputs).pow(2).mean()
            loss.backward()
            time.sleep(GIVEN["step_s"])
            optimizer.step()
            row = epoch, time.monotonic(), loss.item(), indices.tolist(), labels.tolist()
            print(json.dumps(row), file=log, flush=True)
