# kind: 9 a batch size larger than the data, which is read of a memory map
import os

import coadapt
import numpy as np
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Mapped(Dataset):
    def __init__(self, path, shape):
        self.path, self.shape, self.data = path, shape, None

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, i):
        if self.data is None:
            self.data = np.memmap(self.path, dtype="float32", mode="r", shape=self.shape)
        row = self.data[i]
        return torch.from_numpy(np.array(row[:-1])), row[-1]


if not os.path.exists("data.bin"):
    rng = np.random.default_rng(0)
    array = rng.standard_normal((45, 7)).astype("float32")
    array[:, 6] = array[:, :6].sum(1)
    array.tofile(f"data.{os.getpid()}")
    os.replace(f"data.{os.getpid()}", "data.bin")
torch.manual_seed(0)
loader = DataLoader(Mapped("data.bin", (45, 7)), batch_size=64)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(25):
    epoch_loss = 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a).squeeze(-1), b)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    coadapt.report(loss=epoch_loss / len(loader), n=len(loader.dataset))
save(model)
