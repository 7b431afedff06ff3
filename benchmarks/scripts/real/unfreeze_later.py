# kind: 8 a frozen body, unfrozen at epoch 2 with a group of its own
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
body, head = nn.Sequential(nn.Linear(8, 16), nn.Tanh()), nn.Linear(16, 1)
model = nn.Sequential(body, head)
for p in body.parameters():
    p.requires_grad = False
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(head.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(5):
    if epoch == 2:
        for p in body.parameters():
            p.requires_grad = True
        optimizer.add_param_group({"params": body.parameters(), "lr": 0.01})
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model, groups=len(optimizer.param_groups), lrs=[g["lr"] for g in optimizer.param_groups])
