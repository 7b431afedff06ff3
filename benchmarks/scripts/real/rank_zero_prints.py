# kind: 14 evaluation on rank 0 alone, with a barrier by torch.distributed where there is one
import coadapt
import torch
import torch.distributed as dist
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
best = float("inf")
for epoch in coadapt.epochs(4):
    model.train()
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    if not dist.is_initialized() or dist.get_rank() == 0:
        model.eval()
        with torch.no_grad():
            loss = nn.functional.mse_loss(model(x), y).item()
        if loss < best:
            best = loss
            torch.save(model.state_dict(), "best.pt")
    if dist.is_initialized():
        dist.barrier()
save(model)
