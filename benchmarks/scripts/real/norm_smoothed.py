# kind: 8 a smoothed norm of the gradients sets the threshold that they are clipped at
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
smooth = 1.0
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.mse_loss(model(a), b).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.8 * smooth)
        smooth = 0.9 * smooth + 0.1 * norm.item()
        optimizer.step()
    coadapt.report(smooth=smooth)
save(model, smooth=smooth)
