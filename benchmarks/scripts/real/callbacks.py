# kind: 8, 12 a learner with callbacks that keep state, and a loop ended by one of them
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recorder:
    def after_batch(self, learner, loss, n):
        self.total += loss * n
        self.count += n

    def before_epoch(self, learner):
        self.total, self.count = 0.0, 0

    def after_epoch(self, learner):
        learner.log["train"] = self.total / self.count


class StopAfter:
    def __init__(self, batches):
        self.left = batches

    def before_epoch(self, learner):
        pass

    def after_batch(self, learner, loss, n):
        self.left -= 1

    def after_epoch(self, learner):
        learner.stop = self.left <= 0


class Learner:
    def __init__(self, model, optimizer, loader, callbacks):
        self.model, self.optimizer, self.loader = coadapt.prepare(model, optimizer, loader)
        self.callbacks, self.log, self.stop = callbacks, {}, False

    def call(self, name, *args):
        for callback in self.callbacks:
            getattr(callback, name)(self, *args)

    def fit(self):
        for epoch in coadapt.epochs(50):
            self.call("before_epoch")
            for a, b in self.loader:
                saw(a, epoch)
                loss = nn.functional.mse_loss(self.model(a), b)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.call("after_batch", loss.item(), len(a))
            self.call("after_epoch")
            coadapt.report(**self.log)
            if self.stop:
                return epoch


torch.manual_seed(0)
x = torch.randn(123, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
learner = Learner(
    model,
    torch.optim.SGD(model.parameters(), lr=0.05),
    DataLoader(TensorDataset(x, y), batch_size=16),
    [Recorder(), StopAfter(34)],
)
last = learner.fit()
save(model, last=last)
