# kind: 3 accumulation by a context manager of its own that knows whether this is the last batch, as Accelerate's
import contextlib

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Accelerator:
    def __init__(self, gradient_accumulation_steps):
        self.num_steps, self.step, self.sync_gradients, self.end = gradient_accumulation_steps, 0, True, False

    def prepare(self, *things):
        *others, loader = coadapt.prepare(*things)
        self.length = len(loader)
        return *others, self.wrap(loader)

    def wrap(self, loader):
        owner = self

        class Loader:
            def __len__(self):
                return len(loader)

            def __iter__(self):
                owner.end = False
                for i, batch in enumerate(loader):
                    owner.end = i == len(loader) - 1
                    yield batch

        return Loader()

    @contextlib.contextmanager
    def accumulate(self, model):
        if self.end:
            self.step, self.sync_gradients = 0, True
        else:
            self.step += 1
            self.sync_gradients = self.step % self.num_steps == 0
        with contextlib.nullcontext() if self.sync_gradients else self.no_sync(model):
            yield

    @contextlib.contextmanager
    def no_sync(self, model):
        yield

    def backward(self, loss):
        (loss / self.num_steps).backward()

    def clip_grad_norm_(self, parameters, norm):
        if self.sync_gradients:
            nn.utils.clip_grad_norm_(parameters, norm)


torch.manual_seed(0)
x = torch.randn(132, 6)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
accelerator = Accelerator(gradient_accumulation_steps=4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
loader = DataLoader(TensorDataset(x, y), batch_size=12)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
completed_steps, total_loss = 0, 0.0
for epoch in coadapt.epochs(9):
    total_loss = 0.0
    for batch in loader:
        a, b = batch
        saw(a, epoch)
        with accelerator.accumulate(model):
            loss = F.mse_loss(model(a), b)
            total_loss += loss.detach().float()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            if accelerator.sync_gradients:
                optimizer.step()
                optimizer.zero_grad()
                completed_steps += 1
    coadapt.report(train_loss=total_loss.item() / len(loader))
save(model, completed=completed_steps)
