# kind: 12 Ctrl-C ends the training, as a handler and finally have it
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
progress = {"step": 0, "status": "running"}


try:
    for epoch in coadapt.epochs(20):
        for a, b in loader:
            saw(a, epoch)
            optimizer.zero_grad()
            F.cross_entropy(model(a), b).backward()
            optimizer.step()
            progress["step"] += 1
            if progress["step"] == 29:
                raise KeyboardInterrupt
except KeyboardInterrupt:
    print("interrupted, saving")
    progress["status"] = "interrupted"
else:
    progress["status"] = "finished"
finally:
    progress["epoch"] = epoch
    save(model, **progress)
