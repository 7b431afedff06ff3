# kind: 3, 8 a backbone that is unfrozen at a step, in the midst of an epoch, with a group of its own
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.head = nn.Linear(16, 2)

    def forward(self, a):
        return self.head(self.backbone(a))


def set_trainable(module, flag):
    for parameter in module.parameters():
        parameter.requires_grad_(flag)


model = Net()
set_trainable(model.backbone, False)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1, momentum=0.9)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
UNFREEZE_AT = 4
global_step = 0
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        if global_step == UNFREEZE_AT:
            set_trainable(model.backbone, True)
            optimizer.add_param_group({"params": model.backbone.parameters(), "lr": 0.02})
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()
        global_step += 1
save(model, steps=global_step, rates=[group["lr"] for group in optimizer.param_groups])
