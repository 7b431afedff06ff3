# kind: 8 pseudo-labels: a data set of its own that is given new labels after each epoch
import coadapt
import numpy as np
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class PseudoLabelled(Dataset):
    def __init__(self, x, y, known):
        self.x, self.y, self.known = x, y.clone(), known
        self.y[~known] = -1
        self.used = np.ones(len(x), dtype=np.float32)
        self.used[~known.numpy()] = 0

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return i, self.x[i], max(int(self.y[i]), 0), self.used[i]

    def relabel(self, probs, threshold):
        conf, guess = probs.max(1)
        take = (~self.known) & (conf > threshold)
        self.y[take] = guess[take]
        self.used[take.numpy()] = 1.0
        return int(take.sum())


torch.manual_seed(0)
x = torch.randn(128, 6)
dataset = PseudoLabelled(x, (x.sum(1) > 0).long(), torch.arange(128) % 4 == 0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(dataset, batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
taken = []
for epoch in coadapt.epochs(5):
    for i, a, b, w in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        (F.cross_entropy(model(a), b, reduction="none") * w).mean().backward()
        optimizer.step()
    with torch.no_grad():
        taken.append(dataset.relabel(model(dataset.x).softmax(1), 0.6 - 0.02 * epoch))
save(model, taken=taken, used=int(dataset.used.sum()))
