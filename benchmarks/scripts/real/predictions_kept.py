# kind: 6 predictions and targets of an epoch, concatenated at its end for a median
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
for epoch in coadapt.epochs(4):
    errors = []
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        nn.functional.mse_loss(out, b).backward()
        optimizer.step()
        errors.append((out.detach() - b).abs().flatten())
    coadapt.report(count=len(torch.cat(errors)), mean=torch.cat(errors).mean())
save(model)
