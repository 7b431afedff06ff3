# kind: 7 a triplet loss over rows of three
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
a = torch.randn(128, 8)
p, n = a + 0.1 * torch.randn(128, 8), torch.randn(128, 8)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
triplet = nn.TripletMarginLoss(margin=1.0)
loader = DataLoader(TensorDataset(a, p, n), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, p, n in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        triplet(model(a), model(p), model(n)).backward()
        optimizer.step()
save(model)
