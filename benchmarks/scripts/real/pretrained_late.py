# kind: 1, 4 weights are loaded and the rate is set after prepare; the rate falls with each epoch
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

state = {
    k: torch.zeros_like(v) + 0.01 * torch.arange(v.numel()).view_as(v) % 0.1 for k, v in model.state_dict().items()
}
model.load_state_dict(state)
for group in optimizer.param_groups:
    group["lr"] = 0.05
for epoch in coadapt.epochs(5):
    for group in optimizer.param_groups:
        group["lr"] *= 0.9
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
save(model, lr=optimizer.param_groups[0]["lr"])
