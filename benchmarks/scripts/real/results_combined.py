# kind: 6 metrics that are combined in ways of their own: the largest, the smallest, a sum
# leave out: metrics of lose crash chain: what a lost replica had seen is lost with it
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    errors = []
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        nn.functional.mse_loss(out, b).backward()
        optimizer.step()
        errors.extend((out.detach() - b).abs().flatten().tolist())
    coadapt.report(
        combine={"worst": "max", "best": "min", "above": "sum"},
        worst=max(errors),
        best=min(errors),
        above=sum(error > 1 for error in errors),
        mean=sum(errors) / len(errors),
    )
save(model)
