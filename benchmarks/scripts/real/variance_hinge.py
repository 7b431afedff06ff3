# kind: 7 VICReg's hinge on the deviation of each of eight features over the batch
# leave out: repeats of all: every replica computes whole batches, as samples meet in the loss
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
one = torch.randn(128, 6)
two = one + 0.1 * torch.randn(128, 6)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
loader = DataLoader(TensorDataset(one, two), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        za, zb = model(a), model(b)
        std_a, std_b = torch.sqrt(za.var(dim=0) + 1e-4), torch.sqrt(zb.var(dim=0) + 1e-4)
        loss = 25 * F.mse_loss(za, zb) + F.relu(1 - std_a).mean() / 2 + F.relu(1 - std_b).mean() / 2
        loss.backward()
        optimizer.step()
save(model)
