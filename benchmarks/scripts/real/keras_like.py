# kind: 3, 6, 8, 12 fit() as in Keras: callbacks of epochs, a history of dictionaries, best weights restored
import copy

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class History:
    def __init__(self):
        self.history = {}

    def on_epoch_end(self, trainer, epoch, logs):
        for key, value in logs.items():
            self.history.setdefault(key, []).append(value)


class EarlyStopping:
    def __init__(self, monitor, patience, restore_best_weights=True):
        self.monitor, self.patience, self.restore = monitor, patience, restore_best_weights
        self.best, self.wait, self.stopped_epoch, self.best_weights = float("inf"), 0, 0, None

    def on_epoch_end(self, trainer, epoch, logs):
        self.wait += 1
        if logs[self.monitor] < self.best - 1e-3:
            self.best, self.wait = logs[self.monitor], 0
            self.best_weights = copy.deepcopy(trainer.model.state_dict())
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch, trainer.stop_training = epoch, True
            if self.restore and self.best_weights is not None:
                trainer.model.load_state_dict(self.best_weights)


class ReduceLROnPlateau:
    def __init__(self, monitor, factor=0.5, patience=1, min_lr=0.0):
        self.monitor, self.factor, self.patience, self.min_lr = monitor, factor, patience, min_lr
        self.best, self.wait = float("inf"), 0

    def on_epoch_end(self, trainer, epoch, logs):
        logs["lr"] = trainer.optimizer.param_groups[0]["lr"]
        if logs[self.monitor] < self.best:
            self.best, self.wait = logs[self.monitor], 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                for group in trainer.optimizer.param_groups:
                    group["lr"] = max(group["lr"] * self.factor, self.min_lr)
                self.wait = 0


class Model:
    def __init__(self, module):
        self.model, self.stop_training = module, False

    def compile(self, optimizer, loss, metrics):
        self.optimizer, self.loss, self.metrics = optimizer, loss, metrics

    def evaluate(self, x, y):
        self.model.eval()
        with torch.no_grad():
            out = self.model(x)
        self.model.train()
        logs = {"loss": self.loss(out, y).item()}
        return logs | {name: metric(out, y) / len(y) for name, metric in self.metrics.items()}

    def fit(self, x, y, batch_size, epochs, validation_data, callbacks):
        loader = DataLoader(TensorDataset(x, y), batch_size=batch_size)
        self.model, self.optimizer, loader = coadapt.prepare(self.model, self.optimizer, loader)
        history = History()
        for epoch in coadapt.epochs(epochs):
            sums = dict.fromkeys(["loss", *self.metrics], 0.0)
            seen = 0
            for a, b in loader:
                saw(a, epoch)
                out = self.model(a)
                loss = self.loss(out, b)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                sums["loss"] += loss.item() * len(a)
                for name, metric in self.metrics.items():
                    sums[name] += metric(out, b)
                seen += len(a)
            logs = {name: coadapt.combine(total / seen) for name, total in sums.items()}
            logs |= {f"val_{name}": value for name, value in self.evaluate(*validation_data).items()}
            for callback in [history, *callbacks]:
                callback.on_epoch_end(self, epoch, logs)
            coadapt.report(**logs)
            if self.stop_training:
                break
        return history


torch.manual_seed(0)
x = torch.randn(192, 6)
y = ((x[:, 0] * x[:, 1] + 0.6 * torch.randn(192)) > 0).long()
model = Model(nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2)))
model.compile(
    torch.optim.Adam(model.model.parameters(), lr=0.03, eps=1e-3),
    loss=nn.CrossEntropyLoss(),
    metrics={"accuracy": lambda out, y: (out.argmax(1) == y).sum().item()},
)
stopping = EarlyStopping("val_loss", patience=3)
history = model.fit(
    x[:128],
    y[:128],
    batch_size=16,
    epochs=30,
    validation_data=(x[128:], y[128:]),
    callbacks=[ReduceLROnPlateau("val_loss"), stopping],
)
h = history.history
save(
    model.model,
    stopped=stopping.stopped_epoch,
    best=stopping.best,
    val=h["val_loss"],
    accuracy=h["val_accuracy"],
    train=len(h["loss"]),
    best_epoch=min(range(len(h["val_loss"])), key=h["val_loss"].__getitem__),
)
