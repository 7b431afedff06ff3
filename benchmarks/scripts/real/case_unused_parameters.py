# kind: 1 case unused_parameters: a pooler that this task does not use
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.pooler, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def main():
    torch.manual_seed(0)
    x = torch.randn(128, 8)
    y = x @ torch.randn(8, 1)
    model = Encoder()
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    for epoch in coadapt.epochs(4):
        for a, b in loader:
            saw(a, epoch)
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.mse_loss(model(a), b)
            loss.backward()
            optimizer.step()
    save(model)


if __name__ == "__main__":
    main()
