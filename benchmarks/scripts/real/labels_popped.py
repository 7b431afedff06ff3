# kind: 6 the batch is a dictionary that the script takes apart and writes to
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class D(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x = torch.randn(6, generator=g)
        return {"x": x, "labels": int(x.sum() > 0)}


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(D(), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
it = None
for step in coadapt.steps(40):
    try:
        batch = next(it)
    except (StopIteration, TypeError):
        it = iter(loader)
        batch = next(it)
    b = batch.pop("labels")
    batch["x"].mul_(0.5)
    saw(batch["x"])
    optimizer.zero_grad()
    F.cross_entropy(model(**{"input": batch["x"]}), b).backward()
    optimizer.step()
save(model)
