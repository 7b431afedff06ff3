# kind: 7 weights of classes by how often each is in the batch
# leave out: repeats of all: every replica computes whole batches, once that is found out
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = (x[:, 0] + x[:, 1] > 0.5).long() + (x[:, 2] > 1).long()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        counts = torch.bincount(b, minlength=3).float()
        weight = counts.sum() / (3 * counts.clamp(min=1))
        loss = F.nll_loss(model(a).log_softmax(1), b, weight=weight)
        loss.backward()
        optimizer.step()
save(model)
