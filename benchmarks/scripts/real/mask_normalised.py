# kind: 7 a mask that is divided by its sum before it weighs the losses
# leave out: repeats of all: batches may be done again as a whole to find out what the loss is
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
valid = (torch.arange(128) % 5 != 0) & (torch.arange(128) % 7 < 5)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y, valid), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, m in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        mask = m.float()
        mask = mask / mask.sum()
        loss = (F.smooth_l1_loss(model(a), b, reduction="none").squeeze(1) * mask).sum()
        loss.backward()
        optimizer.step()
save(model)
