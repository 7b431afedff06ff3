"""Train as a YAML file says."""

import sys

import torch
import yaml

with open(sys.argv[1]) as file:
    config = yaml.safe_load(file)
torch.manual_seed(config["seed"])
widths = [4, *config["model"]["widths"]]
layers = [torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:])]
model = torch.nn.Sequential(*layers)
optimizer = getattr(torch.optim, config["optimizer"]["name"])(model.parameters(), lr=config["optimizer"]["lr"])
x = torch.randn(64, 4)
for step in range(config["steps"]):
    loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"final loss {loss.item():.6f}")
