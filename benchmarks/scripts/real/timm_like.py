# kind: 3, 11 train_one_epoch with meters, a loss scaler object, model EMA, updates per epoch and step_update
import math

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ModelEma(nn.Module):
    def __init__(self, model, decay):
        super().__init__()
        import copy

        self.module, self.decay = copy.deepcopy(model).requires_grad_(False), decay

    @torch.no_grad()
    def update(self, model):
        for ema, value in zip(self.module.state_dict().values(), model.state_dict().values()):
            ema.copy_(self.decay * ema + (1.0 - self.decay) * value)


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu", enabled=False)

    def __call__(self, loss, optimizer, clip_grad, parameters):
        self._scaler.scale(loss).backward()
        self._scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, clip_grad)
        self._scaler.step(optimizer)
        self._scaler.update()


def cosine(optimizer, num_updates, total):
    for group in optimizer.param_groups:
        group["lr"] = 0.05 * 0.5 * (1 + math.cos(math.pi * num_updates / total))


def train_one_epoch(epoch, epochs, model, loader, optimizer, loss_scaler, model_ema):
    num_updates = epoch * len(loader)
    last_idx = len(loader) - 1
    losses, count = 0.0, 0
    model.train()
    for batch_idx, (input, target) in enumerate(loader):
        saw(input, epoch)
        last_batch = batch_idx == last_idx
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(input), target, label_smoothing=0.1)
        loss_scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        model_ema.update(model)
        num_updates += 1
        losses += loss.item() * input.size(0)
        count += input.size(0)
        if last_batch or batch_idx % 3 == 0:
            print(f"Train: {epoch} [{batch_idx}/{len(loader)}] {losses / count:.3f}")
        cosine(optimizer, num_updates, epochs * len(loader))
    return {"loss": losses / count}


torch.manual_seed(0)
x, y = torch.randn(123, 8), torch.randint(0, 4, (123,))
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
ema = ModelEma(model, 0.9)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, ema, optimizer, loader = coadapt.prepare(model, ema, optimizer, loader)
scaler = NativeScaler()
for epoch in coadapt.epochs(4):
    coadapt.report(**train_one_epoch(epoch, 4, model, loader, optimizer, scaler, ema))
save({"model": model, "ema": ema})
