"""A training script that writes which loader workers read its samples."""

import argparse
import os
from pathlib import Path

import coadapt
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path)
parser.add_argument("--samples", type=int)
given = parser.parse_args()


class Samples(Dataset):
    def __init__(self) -> None:
        self.read = coadapt.cached(lambda index: float(index))

    def __len__(self) -> int:
        return given.samples

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, int]:
        info = get_worker_info()
        return index, torch.full((2,), self.read(index)), 0 if info is None else info.num_workers


torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
loader = DataLoader(Samples(), batch_size=4, shuffle=True, num_workers=1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
with (given.out / f"seen-{os.getpid()}.txt").open("a") as seen, (given.out / "workers.txt").open("a") as workers:
    for epoch in coadapt.epochs(10_000):
        for indices, inputs, counts in loader:
            optimizer.zero_grad()
            model(inputs).pow(2).mean().backward()
            optimizer.step()
            print(epoch, *indices.tolist(), file=seen, flush=True)
            print(*counts.tolist(), file=workers, flush=True)
