# kind: 7 a loss that is an autograd function of one's own, said to be a mean
# leave out: repeats of all: batches are done again as a whole to find out what the loss is
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Huberish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out, target):
        d = out - target
        ctx.save_for_backward(d)
        return torch.log(torch.cosh(d)).mean()

    @staticmethod
    def backward(ctx, grad):
        (d,) = ctx.saved_tensors
        return grad * torch.tanh(d) / d.numel(), None


torch.manual_seed(0)
x = torch.randn(123, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader, loss="mean")
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        Huberish.apply(model(a), b).backward()
        optimizer.step()
save(model)
