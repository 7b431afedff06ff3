# kind: 3, 4, 8 a module with training_step and hooks, and a trainer: accumulation by epochs, self.log, global_step
from dataclasses import dataclass, field

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Logged:
    value: float = 0.0
    weight: int = 0

    def update(self, value, n):
        self.value += value * n
        self.weight += n

    def compute(self):
        return self.value / self.weight


@dataclass
class LoopState:
    global_step: int = 0
    current_epoch: int = 0
    batches_that_stepped: int = 0
    logged: dict = field(default_factory=dict)
    callback_metrics: dict = field(default_factory=dict)


class LitModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, a):
        return self.net(a)

    def training_step(self, batch, batch_idx):
        a, b = batch
        saw(a, self.trainer.state.current_epoch)
        loss = F.mse_loss(self(a), b)
        self.log("train_loss", loss, len(a))
        self.log("train_mae", F.l1_loss(self(a), b), len(a))
        return loss

    def log(self, name, value, batch_size):
        self.trainer.state.logged.setdefault(name, Logged()).update(value.item(), batch_size)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.5)
        return optimizer, torch.optim.lr_scheduler.MultiStepLR(optimizer, [4, 8], gamma=0.5)

    def on_train_epoch_end(self):
        coadapt.report(**self.trainer.state.callback_metrics)


class GradientAccumulationScheduler:
    def __init__(self, scheduling):
        self.scheduling = scheduling

    def on_train_epoch_start(self, trainer, module):
        for epoch, factor in sorted(self.scheduling.items()):
            if trainer.state.current_epoch >= epoch:
                trainer.accumulate_grad_batches = factor


class Trainer:
    def __init__(self, max_epochs, max_steps, callbacks, gradient_clip_val):
        self.max_epochs, self.max_steps, self.callbacks = max_epochs, max_steps, callbacks
        self.gradient_clip_val, self.accumulate_grad_batches = gradient_clip_val, 1
        self.state, self.should_stop = LoopState(), False

    def fit(self, module, loader):
        module.__dict__["trainer"] = self
        optimizer, scheduler = module.configure_optimizers()
        module, optimizer, scheduler, loader = coadapt.prepare(module, optimizer, scheduler, loader)
        state = self.state
        for state.current_epoch in coadapt.epochs(self.max_epochs):
            state.logged = {}
            for callback in self.callbacks:
                callback.on_train_epoch_start(self, module)
            for batch_idx, batch in enumerate(loader):
                loss = module.training_step(batch, batch_idx)
                (loss / self.accumulate_grad_batches).backward()
                last = batch_idx == len(loader) - 1
                if (batch_idx + 1) % self.accumulate_grad_batches == 0 or last:
                    nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                    state.global_step += 1
                    if state.global_step >= self.max_steps:
                        self.should_stop = True
                        break
            state.callback_metrics = {name: value.compute() for name, value in state.logged.items()}
            module.on_train_epoch_end()
            if self.should_stop:
                break


torch.manual_seed(0)
x = torch.randn(132, 6)
y = x.sum(1, keepdim=True)
module = LitModule()
trainer = Trainer(8, 30, [GradientAccumulationScheduler({1: 2, 3: 4})], gradient_clip_val=1.0)
trainer.fit(module, DataLoader(TensorDataset(x, y), batch_size=12))
save(module, step=trainer.state.global_step, epoch=trainer.state.current_epoch)
