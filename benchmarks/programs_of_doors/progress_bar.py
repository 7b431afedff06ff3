import sys
import time

import torch

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
    bar = "#" * step + "." * (30 - step)
    sys.stderr.write(f"\r{100 * step // 30:3d}%|{bar}| {step}/30 [loss={loss.item():.4f}]")
    sys.stderr.flush()
sys.stderr.write("\n")
print(f"final loss {loss.item():.6f}")
