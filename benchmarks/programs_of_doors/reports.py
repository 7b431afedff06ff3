import time

import torch
import coadapt

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 4)
for step in range(1, 31):
    loss = torch.nn.functional.mse_loss(model(x), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.1)
    coadapt.report(step=step, steps=30, loss=loss.item())
print(f"final loss {loss.item():.6f}")
