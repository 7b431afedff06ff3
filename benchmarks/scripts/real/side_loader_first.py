# kind: 3, 8 zip of two loaders, the training loader second
# expect: refused all: a batch of the first loader is taken before it is known to which pass it belongs
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
first = DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=16)
loader = DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=16)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(6):
    for (a,), (b,) in zip(first, loader):
        saw(b, epoch)
        optimizer.zero_grad()
        loss = (model(b) - b).square().mean() + model(a).abs().mean()
        loss.backward()
        optimizer.step()
save(model)
