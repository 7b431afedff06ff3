# kind: 1 two losses, each with a backward of its own, the second through a shared graph
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.a(h), self.b(h)


torch.manual_seed(0)
x, y, c = torch.randn(120, 8), torch.randn(120, 1), torch.randint(0, 3, (120,))
model = TwoHeads()
loader = DataLoader(TensorDataset(x, y, c), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, k in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out, logits = model(a)
        nn.functional.l1_loss(out, b).backward(retain_graph=True)
        (0.5 * nn.functional.cross_entropy(logits, k)).backward()
        optimizer.step()
save(model)
