# kind: 7 RankNet: all pairs of a batch of ten, by torch.combinations
# leave out: repeats of all: every replica computes whole batches, as pairs are of the whole batch
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(120, 6)
y = x.sum(1)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
criterion = nn.MarginRankingLoss(margin=0.2)
loader = DataLoader(TensorDataset(x, y), batch_size=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        score = model(a).squeeze(1)
        i, j = torch.combinations(torch.arange(len(b)), 2).unbind(1)
        loss = criterion(score[i], score[j], torch.sign(b[i] - b[j]))
        loss.backward()
        optimizer.step()
save(model)
