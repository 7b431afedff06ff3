# kind: 6 rows of each batch, as mappings and tuples, averaged at the end of each epoch
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
step = 0
for epoch in coadapt.epochs(4):
    rows, pairs = [], []
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = nn.functional.mse_loss(out, b)
        loss.backward()
        optimizer.step()
        step += 1
        rows.append({"step": step, "loss": loss.item(), "mae": (out - b).abs().mean().item()})
        pairs.append((loss.item(), (out - b).abs().mean().item()))
    mean = {key: sum(row[key] for row in rows) / len(rows) for key in ("loss", "mae")}
    coadapt.report(of_pairs=sum(mae for _, mae in pairs) / len(pairs), **mean)
save(model, step=step)
