# kind: 4 steps over batches that a generator yields
import coadapt
import numpy as np
import torch
from results import save, saw
from torch import nn


def stream(seed):
    rng = np.random.default_rng(seed)
    while True:
        x = rng.normal(size=(16, 8)).astype("float32")
        yield {"x": torch.from_numpy(x), "y": torch.from_numpy(x.sum(1, keepdims=True))}


torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = coadapt.batches(stream(3))
model, optimizer, data = coadapt.prepare(model, optimizer, data)
it = iter(data)
for step in coadapt.steps(32):
    batch = next(it)
    saw(batch["x"])
    loss = nn.functional.mse_loss(model(batch["x"]), batch["y"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print("step", step, float(loss))
save(model)
