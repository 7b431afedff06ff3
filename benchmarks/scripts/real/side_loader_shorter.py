# kind: 3, 8 zip of the training loader and of a second one that ends first, and so does the epoch
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(128, 4)), batch_size=16)
second = DataLoader(TensorDataset(torch.randn(72, 4)), batch_size=12)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader, loss="mean")
for epoch in coadapt.epochs(6):
    for (a,), (b,) in zip(loader, second):
        saw(a, epoch)
        optimizer.zero_grad()
        loss = (model(a) - a).square().mean() + model(b).abs().mean()
        loss.backward()
        optimizer.step()
save(model)
