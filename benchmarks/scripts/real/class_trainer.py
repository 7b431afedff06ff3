# kind: 3 a trainer class that keeps everything in attributes: global step, history, best, patience
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


class Trainer:
    def __init__(self, model, optimizer, scheduler, loader, clip=0.5):
        self.model, self.optimizer, self.scheduler, self.loader = model, optimizer, scheduler, loader
        self.clip, self.global_step, self.history, self.best = clip, 0, [], float("inf")

    def train_step(self, a, b):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.smooth_l1_loss(self.model(a), b)
        loss.backward()
        nn.utils.clip_grad_value_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.scheduler.step()
        self.global_step += 1
        return loss.item()

    def fit(self, epochs):
        for epoch in coadapt.epochs(epochs):
            meter = Meter()
            self.model.train()
            for a, b in self.loader:
                saw(a, epoch)
                meter.update(self.train_step(a, b), len(a))
            self.history.append(meter.avg)
            self.best = min(self.best, coadapt.combine(meter.avg))
            coadapt.report(loss=meter.avg, best=self.best)


torch.manual_seed(0)
x = torch.randn(120, 6)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.NAdam(model.parameters(), lr=0.01, eps=1e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
model, optimizer, scheduler, loader = coadapt.prepare(model, optimizer, scheduler, loader)
trainer = Trainer(model, optimizer, scheduler, loader)
trainer.fit(4)
save(model, steps=trainer.global_step)
