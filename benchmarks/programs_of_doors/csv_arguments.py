"""Fit a line to a file of points."""

import argparse
import csv

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()

with open(args.data) as file:
    rows = [(float(row["x"]), float(row["y"])) for row in csv.DictReader(file)]
x, y = torch.tensor(rows).T.unsqueeze(-1)
torch.manual_seed(0)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
for epoch in range(args.epochs):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
print(f"final loss {loss.item():.6f}")
