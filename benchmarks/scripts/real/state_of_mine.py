# kind: 11 an object with a state of its own, given to prepare: seen tokens and a running mean
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tracker:
    def __init__(self):
        self.epochs, self.history = 0, []

    def epoch_done(self, value):
        self.epochs += 1
        self.history.append(value)

    def state_dict(self):
        return {"epochs": self.epochs, "history": list(self.history)}

    def load_state_dict(self, state):
        self.epochs, self.history = state["epochs"], list(state["history"])


torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model, tracker = nn.Linear(8, 1), Tracker()
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader, tracker = coadapt.prepare(model, optimizer, loader, tracker)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    with torch.no_grad():
        tracker.epoch_done(nn.functional.mse_loss(model(x), y).item())
    coadapt.report(mean_so_far=sum(tracker.history) / tracker.epochs)
save(model, epochs=tracker.epochs, history=tracker.history)
