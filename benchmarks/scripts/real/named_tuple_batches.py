# kind: 9 batches that are named tuples, dictionaries in dictionaries
from collections import namedtuple

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset

Row = namedtuple("Row", "number inputs target")
torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


class Rows(Dataset):
    def __len__(self):
        return len(x)

    def __getitem__(self, i):
        return Row(i, {"image": x[i], "extra": {"scale": torch.tensor(1.0 + i % 3)}}, y[i])


loader = DataLoader(Rows(), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for row in loader:
        saw(row.number, epoch)
        optimizer.zero_grad()
        out = model(row.inputs["image"]) * row.inputs["extra"]["scale"][:, None]
        nn.functional.mse_loss(out, row.target).backward()
        optimizer.step()
save(model)
