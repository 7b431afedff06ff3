# kind: 7 BCE with a positive weight by the batch's own balance
# leave out: repeats of all: every replica computes whole batches, once that is found out
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = (x.sum(1, keepdim=True) > 1.5).float()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        positives = b.sum().clamp(min=1)
        loss = F.binary_cross_entropy_with_logits(model(a), b, pos_weight=(b.numel() - positives) / positives)
        loss.backward()
        optimizer.step()
save(model)
