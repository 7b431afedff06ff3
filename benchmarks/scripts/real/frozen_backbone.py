# kind: 1 a frozen backbone in eval mode, the optimizer given what requires a gradient
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class FineTuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Linear(16, 3)
        self.backbone.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)


torch.manual_seed(0)
x, y = torch.randn(128, 8), torch.randint(0, 3, (128,))
model = FineTuned().train()
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    model.train()
    correct = total = 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        nn.functional.cross_entropy(out, b).backward()
        optimizer.step()
        correct += (out.argmax(1) == b).sum().item()
        total += b.size(0)
    coadapt.report(accuracy=100.0 * correct / total)
save(model)
