# kind: 7 pairs: cosine embedding with a margin, contrastive distances, and a hinge, summed and divided
# leave out: repeats of all: batches may be done again as a whole to find out what the loss is
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
one, two = torch.randn(124, 6), torch.randn(124, 6)
same = (one * two).sum(1) > 0
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
cosine = nn.CosineEmbeddingLoss(margin=0.3)
hinge = nn.HingeEmbeddingLoss(margin=0.8, reduction="sum")
loader = DataLoader(TensorDataset(one, two, same), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, s in loader:
        saw(a, epoch)
        za, zb = model(a), model(b)
        sign = s.float() * 2 - 1
        distance = F.pairwise_distance(za, zb)
        contrastive = (s * distance.pow(2) + ~s * F.relu(1 - distance).pow(2)).mean()
        loss = cosine(za, zb, sign) + contrastive + 0.1 * hinge(distance, sign) / len(a)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
