# kind: 1 branches taken by what is in the batch, so that replicas reach other parameters
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.experts = nn.ModuleList([nn.Linear(16, 1) for _ in range(4)])

    def forward(self, x, kind):
        h = torch.tanh(self.gate(x))
        out = torch.zeros(len(x), 1)
        for k in kind.unique().tolist():
            out = out.index_put((torch.where(kind == k)[0],), self.experts[k](h[kind == k]))
        return out


torch.manual_seed(0)
x, kind = torch.randn(128, 8), torch.randint(0, 4, (128,)).sort().values
y = x.sum(1, keepdim=True) * (kind[:, None] + 1)
model = Experts()
loader = DataLoader(TensorDataset(x, kind, y), batch_size=16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, k, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a, k), b).backward()
        optimizer.step()
save(model)
