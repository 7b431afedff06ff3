# kind: 8 code that runs once: from epoch 2 on the data set gives harder samples, the rate is lower
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(0)
        self.x, self.noise = torch.randn(128, 8, generator=g), torch.randn(128, 8, generator=g)
        self.level = 0.0

    def __len__(self):
        return 128

    def __getitem__(self, i):
        return i, self.x[i] + self.level * self.noise[i], self.x[i].sum(0, keepdim=True)


data = Noisy()
torch.manual_seed(0)
model = nn.Linear(8, 1)
loader = DataLoader(data, batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(5):
    if epoch == 1:
        data.level = 0.5
    if epoch == 2:
        for group in optimizer.param_groups:
            group["lr"] *= 0.1
    for i, a, b in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model, level=data.level, lr=optimizer.param_groups[0]["lr"])
