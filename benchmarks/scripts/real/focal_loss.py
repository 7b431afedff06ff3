# kind: 7 a focal loss module, mean by hand over samples
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, target):
        ce = nn.functional.cross_entropy(logits, target, reduction="none")
        pt = torch.exp(-ce)
        return (self.alpha * (1 - pt) ** self.gamma * ce).mean()


torch.manual_seed(0)
x, y = torch.randn(125, 8), torch.randint(0, 3, (125,))
model, criterion = nn.Linear(8, 3), FocalLoss()
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        criterion(model(a), b).backward()
        optimizer.step()
save(model)
