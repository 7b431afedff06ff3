"""A variational autoencoder whose loss is a method of the model.

The loss is summed over the batch, as in Kingma & Welling. The pictures are drawn from a seed. Each shows two
soft blobs, so a few numbers describe it.
"""

import argparse

import coadapt
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SIZE, LATENT = 10, 6


def make_pictures(count: int, seed: int) -> torch.Tensor:
    """Return (count, SIZE * SIZE) values between 0 and 1. Each picture has two blobs."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    picture = torch.zeros(count, SIZE, SIZE)
    for _ in range(2):
        at = torch.rand(count, 2, 1, 1, generator=generator) * SIZE
        wide = 1.0 + 1.5 * torch.rand(count, 1, 1, generator=generator)
        picture += torch.exp(-((rows - at[:, 0]) ** 2 + (columns - at[:, 1]) ** 2) / (2 * wide**2))
    return picture.clamp(0, 1).flatten(1)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(SIZE * SIZE, 200)
        self.fc21 = nn.Linear(200, LATENT)
        self.fc22 = nn.Linear(200, LATENT)
        self.fc3 = nn.Linear(LATENT, 200)
        self.fc4 = nn.Linear(200, SIZE * SIZE)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu, logvar):
        return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def loss_function(self, x):
        mu, logvar = self.encode(x)
        reconstructed = self.decode(self.reparameterize(mu, logvar))
        bce = F.binary_cross_entropy(reconstructed, x, reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return bce + kld


def train(model, loader, optimizer, device):
    model.train()
    train_loss = 0.0
    for (pictures,) in loader:
        optimizer.zero_grad()
        loss = model.loss_function(pictures.to(device))
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    return train_loss / len(loader.dataset)


@torch.no_grad()
def test(model, pictures):
    model.eval()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return model.loss_function(pictures).item() / len(pictures)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = coadapt.device()
    loader = DataLoader(TensorDataset(make_pictures(4000, seed=1)), batch_size=64, shuffle=True)
    held_out = make_pictures(1000, seed=2).to(device)
    model = VAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

    for epoch in coadapt.epochs(args.epochs):
        train_loss = train(model, loader, optimizer, device)
        test_loss = test(model, held_out)
        coadapt.report(train_loss=train_loss, test_loss=test_loss)
        print(f"epoch {epoch} train_loss {train_loss:.3f} test_loss {test_loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
