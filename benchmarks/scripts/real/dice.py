# kind: 7 a Dice loss over the whole batch: a ratio of sums
# leave out: repeats of all: every replica computes whole batches, as no part has their loss
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def dice_loss(logits, target, smooth=1.0):
    p = torch.sigmoid(logits).flatten()
    t = target.flatten()
    return 1 - (2 * (p * t).sum() + smooth) / (p.sum() + t.sum() + smooth)


torch.manual_seed(0)
x = torch.randn(128, 1, 6, 6)
y = (x + 0.3 * torch.randn_like(x) > torch.linspace(-1, 1, 128).view(-1, 1, 1, 1)).float()
model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a.flatten(1), epoch)
        optimizer.zero_grad()
        dice_loss(model(a), b).backward()
        optimizer.step()
save(model)
