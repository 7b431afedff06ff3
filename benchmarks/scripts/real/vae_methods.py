# kind: 1, 7 a VAE: loss by a method, encode and decode called apart, sums over everything
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(10, 16), nn.Linear(16, 3), nn.Linear(16, 3)
        self.dec = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 10))

    def encode(self, x):
        h = F.relu(self.enc(x))
        return self.mu(h), self.logvar(h)

    def decode(self, z):
        return torch.sigmoid(self.dec(z))

    def loss_function(self, x, eps):
        mu, logvar = self.encode(x)
        recon = self.decode(mu + eps * torch.exp(0.5 * logvar))
        bce = F.binary_cross_entropy(recon, x, reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return bce + kld


def train(epoch, model, loader, optimizer):
    model.train()
    train_loss = 0
    for x, eps in loader:
        saw(x, epoch)
        optimizer.zero_grad()
        loss = model.loss_function(x, eps)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    return train_loss / len(loader.dataset)


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(124, 10), torch.randn(124, 3))  # the noise is drawn once, for a fixed result
    model = VAE()
    loader = DataLoader(data, batch_size=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    for epoch in coadapt.epochs(4):
        coadapt.report(elbo=train(epoch, model, loader, optimizer))
    save(model)


if __name__ == "__main__":
    main()
