# kind: 7 SimCLR: every other sample of the batch is a negative, so that the loss is of the whole batch
# leave out: repeats of all: every replica computes whole batches, as no part has their loss
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def nt_xent(a, b, temperature=0.5):
    z = F.normalize(torch.cat([a, b]), dim=1)
    logits = z @ z.T / temperature
    logits = logits.masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
    n = len(a)
    return F.cross_entropy(logits, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))


torch.manual_seed(0)
one, two = torch.randn(128, 8), torch.randn(128, 8)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
loader = DataLoader(TensorDataset(one, two), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        loss = nt_xent(model(a), model(b))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
