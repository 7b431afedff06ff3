# kind: 11 an average with a warm-up of its decay, swapped with the model's weights for validation
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ExponentialMovingAverage:
    def __init__(self, parameters, decay):
        self.decay, self.num_updates = decay, 0
        self.shadow_params = [p.clone().detach() for p in parameters if p.requires_grad]
        self.collected_params = []

    def update(self, parameters):
        self.num_updates += 1
        decay = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        with torch.no_grad():
            for s, p in zip(self.shadow_params, [p for p in parameters if p.requires_grad]):
                s.sub_((1.0 - decay) * (s - p))

    def store(self, parameters):
        self.collected_params = [p.clone() for p in parameters]

    def copy_to(self, parameters):
        for s, p in zip(self.shadow_params, parameters):
            p.data.copy_(s.data)

    def restore(self, parameters):
        for c, p in zip(self.collected_params, parameters):
            p.data.copy_(c.data)


torch.manual_seed(0)
x = torch.randn(160, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
ema = ExponentialMovingAverage(model.parameters(), decay=0.95)
loader = DataLoader(TensorDataset(x[:128], y[:128]), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.mse_loss(model(a), b).backward()
        optimizer.step()
        ema.update(model.parameters())
    ema.store(model.parameters())
    ema.copy_to(model.parameters())
    with torch.no_grad():
        coadapt.report(validation=F.mse_loss(model(x[128:]), y[128:]).item())
    ema.restore(model.parameters())
save({"model": model, "ema": {str(i): s for i, s in enumerate(ema.shadow_params)}}, updates=ema.num_updates)
