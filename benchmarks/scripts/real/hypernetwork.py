# kind: 1 a hypernetwork whose outputs are the weights of another net, by functional_call
# leave out: repeats of all: batches may be done again as a whole to find out what the loss is
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset


class Hyper(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.code = nn.Parameter(torch.randn(5))
        self.heads = nn.ModuleDict(
            {k.replace(".", "_"): nn.Linear(5, p.numel()) for k, p in target.named_parameters()}
        )
        self.shapes = {k: p.shape for k, p in target.named_parameters()}

    def forward(self):
        return {
            k: 0.3 * self.heads[k.replace(".", "_")](self.code).view(shape) for k, shape in self.shapes.items()
        }


torch.manual_seed(0)
x = torch.randn(124, 6)
y = x.sum(1, keepdim=True)
target = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).requires_grad_(False)
hyper = Hyper(target)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.Adam(hyper.parameters(), lr=3e-3)
hyper, optimizer, loader = coadapt.prepare(hyper, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        weights = hyper()
        penalty = sum(w.pow(2).mean() for w in weights.values())
        loss = F.mse_loss(functional_call(target, weights, (a,)), b) + 0.01 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(hyper)
