# kind: 8 LambdaLR, SequentialLR, and a momentum that is set by hand
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
scheduler = torch.optim.lr_scheduler.SequentialLR(
    optimizer,
    [
        torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=8),
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.95**t),
    ],
    milestones=[8],
)
model, optimizer, loader, scheduler = coadapt.prepare(model, optimizer, loader, scheduler)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.param_groups[0]["momentum"] = 0.5 + 0.05 * epoch
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        scheduler.step()
save(model)
