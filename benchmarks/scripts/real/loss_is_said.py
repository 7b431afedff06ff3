# kind: 7 a loss that is said to be a sum, so that nothing has to be found out
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Squares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out, target):
        ctx.save_for_backward(out - target)
        return (out - target).pow(2).sum()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0], None


torch.manual_seed(0)
x = torch.randn(125, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.002)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader, loss="sum")
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = Squares.apply(model(a), b)
        loss.backward()
        optimizer.step()
save(model)
