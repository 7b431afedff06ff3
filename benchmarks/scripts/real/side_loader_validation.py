# kind: 6, 8 a validation within the loop, after every third batch, over a loader of its own; the best loss is kept
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@torch.no_grad()
def validate(model, loader):
    total, count = 0.0, 0
    for a, b in loader:
        total += (model(a) - b).square().sum().item()
        count += len(a)
    return total / count


torch.manual_seed(0)
x, weight = torch.randn(160, 6), torch.randn(6, 1)
train = TensorDataset(x[:96], x[:96] @ weight)
held_out = TensorDataset(x[96:], x[96:] @ weight)
loader, validation = DataLoader(train, batch_size=16), DataLoader(held_out, batch_size=24)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
best = float("inf")
for epoch in coadapt.epochs(6):
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        if i % 3 == 2:
            loss = validate(model, validation)
            best = min(best, loss)
            if best > loss * 1.5:
                optimizer.param_groups[0]["lr"] *= 0.5
    coadapt.report(best=best)
save(model, best=round(best, 4))
