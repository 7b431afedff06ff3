# kind: 9 batch_size=None: the data set makes the batches
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Batched(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(8, 16, 8, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, b):
        return {"index": torch.arange(16) + 16 * b, "x": self.x[b], "y": self.x[b].sum(1, keepdim=True), "b": b}


torch.manual_seed(0)
model = nn.Linear(8, 1)
loader = DataLoader(Batched(), batch_size=None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for batch in loader:
        saw(batch["index"], epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batch["x"]), batch["y"]).backward()
        optimizer.step()
save(model)
