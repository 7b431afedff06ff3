"""A GAN of two models and two optimizers, trained on points of a ring of eight clusters.

The points are drawn from a seed. `distance` is the energy distance between generated and held-out points; 0:
they have the same distribution.
"""

import argparse
import math

import coadapt
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LATENT = 8


def make_points(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    angle = 2 * math.pi * torch.randint(8, (count,), generator=generator) / 8
    centers = torch.stack([angle.cos(), angle.sin()], dim=1)
    return centers + 0.1 * torch.randn(count, 2, generator=generator)


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    hidden = [nn.Linear(inputs, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2)]
    return nn.Sequential(*hidden, nn.Linear(64, outputs))


@torch.no_grad()
def energy_distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = coadapt.device()
    loader = DataLoader(TensorDataset(make_points(4096, seed=1)), batch_size=64, shuffle=True, drop_last=True)
    held_out = make_points(1024, seed=2).to(device)
    fixed_noise = torch.randn(1024, LATENT, generator=torch.Generator().manual_seed(3)).to(device)
    generator, discriminator = mlp(LATENT, 2).to(device), mlp(2, 1).to(device)
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))

    def decay(epoch):
        return 1 - epoch / args.epochs

    scheduler_g = torch.optim.lr_scheduler.LambdaLR(optimizer_g, decay)
    scheduler_d = torch.optim.lr_scheduler.LambdaLR(optimizer_d, decay)
    coadapt.prepare(generator, discriminator, optimizer_g, optimizer_d, loader, scheduler_g, scheduler_d)
    criterion = nn.BCEWithLogitsLoss()

    for epoch in coadapt.epochs(args.epochs):
        for (real,) in loader:
            real = real.to(device)
            ones, zeros = torch.ones(len(real), 1, device=device), torch.zeros(len(real), 1, device=device)

            # (1) Train the discriminator to tell real points from fake ones.
            optimizer_d.zero_grad()
            loss_real = criterion(discriminator(real), ones)
            loss_real.backward()
            fake = generator(torch.randn(len(real), LATENT, device=device))
            loss_fake = criterion(discriminator(fake.detach()), zeros)
            loss_fake.backward()
            optimizer_d.step()

            # (2) Train the generator so that its points are taken for real.
            optimizer_g.zero_grad()
            loss_g = criterion(discriminator(fake), ones)
            loss_g.backward()
            optimizer_g.step()

        scheduler_g.step()
        scheduler_d.step()
        distance = energy_distance(generator(fixed_noise), held_out)
        coadapt.report(loss_g=loss_g.item(), distance=distance)
        print(f"epoch {epoch} loss_g {loss_g.item():.3f} distance {distance:.4f}", flush=True)


if __name__ == "__main__":
    main()
