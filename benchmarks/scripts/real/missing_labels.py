# kind: 7 tasks whose labels are missing here and there: the mean over the tasks that the batch has any of
# leave out: repeats of all: batches are done again as a whole to find out what the loss is
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 3)
n = torch.arange(128)
for task in range(3):  # each label of four samples in sixteen, at places of its own
    y[(n // 4) % 4 != (task + n // 16) % 4, task] = float("nan")
body = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
heads = nn.ModuleList(nn.Linear(16, 1) for _ in range(3))
model = nn.ModuleDict({"body": body, "heads": heads})
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        h = model["body"](a)
        losses = []
        for task, head in enumerate(model["heads"]):
            known = ~torch.isnan(b[:, task])
            if known.any():
                losses.append(F.mse_loss(head(h[known]).squeeze(1), b[known, task]))
        loss = sum(losses) / len(losses)
        loss.backward()
        optimizer.step()
save(model)
