# kind: 4, 12 epochs as many as needed, ended by a number of steps in a function that returns
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, optimizer, max_steps):
    step = 0
    for epoch in coadapt.epochs(100):
        for a, b in loader:
            saw(a, epoch)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(a), b)
            loss.backward()
            optimizer.step()
            step += 1
            if step >= max_steps:
                return step, epoch


torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
step, epoch = train(model, loader, optimizer, 35)
save(model, step=step, epoch=epoch)
