# kind: 1 samples that numba augments and a loss that TorchScript compiles
# leave out: repeats of all: batches are done again as a whole to find out what the compiled loss is
import coadapt
import numba
import numpy as np
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)


@numba.njit
def sharpen(values):
    out = np.zeros_like(values)
    for i, (value, last) in enumerate(zip(values, np.roll(values, 1))):  # noqa: B905 (numba knows no strict)
        out[i] = value + 0.1 * (value - last)
    return out / max(1.0, np.abs(values).max())


class Sharpened(Dataset):
    def __len__(self):
        return len(x)

    def __getitem__(self, i):
        return x[i], torch.from_numpy(sharpen(x[i].numpy())).float(), y[i]


@torch.jit.script
def loss_of(outputs: list[torch.Tensor], target: torch.Tensor):
    total = torch.zeros(())
    for i, output in enumerate(outputs):
        total = total + ((output - target) ** 2).mean() / (i + 1)
    return total


model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(Sharpened(), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, sharp, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss_of([model(a), model(sharp)], b).backward()
        optimizer.step()
save(model)
