# kind: 7 the sum over eight members of their means over samples, as many as a part of a batch has
# leave out: repeats of all: every replica computes whole batches, once that is found out
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Ensemble(nn.Module):
    def __init__(self, members, inputs, hidden):
        super().__init__()
        self.w1, self.b1 = (
            nn.Parameter(0.4 * torch.randn(members, inputs, hidden)),
            nn.Parameter(torch.zeros(members, 1, hidden)),
        )
        self.w2, self.b2 = (
            nn.Parameter(0.4 * torch.randn(members, hidden, 1)),
            nn.Parameter(torch.zeros(members, 1, 1)),
        )

    def forward(self, x):
        h = torch.tanh(torch.baddbmm(self.b1, x.expand(len(self.w1), -1, -1), self.w1))
        return torch.baddbmm(self.b2, h, self.w2)  # members, samples, 1


torch.manual_seed(0)
x = torch.randn(128, 6)
y = x.sum(1, keepdim=True)
model = Ensemble(8, 6, 8)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        loss = (model(a) - b).square().mean(dim=(1, 2)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
