"""Handwritten digits (scikit-learn's) that are unpacked and shifted at random by loader workers, and a CNN.

Preparing a sample takes longer than training on it, so the GPU waits for CPUs.
"""

import argparse
import random
import zlib

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 32


class Pictures(Dataset):
    """1,797 packed pictures of 32x32."""

    def __init__(self):
        digits = load_digits()
        large = np.kron(digits.images, np.ones((SIDE // 8, SIDE // 8))).astype(np.float32) / 16
        self.packed = [zlib.compress(picture.tobytes()) for picture in large]
        self.labels = digits.target
        self.read = self.load

    def __len__(self):
        return len(self.labels)

    def load(self, index):
        """Return the bytes of a picture, as a file would hold them."""
        return self.packed[index]

    def __getitem__(self, index):
        picture = np.frombuffer(zlib.decompress(self.read(index)), np.float32).reshape(SIDE, SIDE)
        across, down = random.randint(-2, 2), random.randint(-2, 2)
        shifted = np.roll(picture, (down, across), (0, 1))
        return torch.from_numpy(shifted).unsqueeze(0), int(self.labels[index])


def network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * (SIDE // 4) ** 2, 10),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    epochs = parser.parse_args().epochs

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = network().to(device)
    loader = DataLoader(Pictures(), batch_size=32, shuffle=True, num_workers=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    for epoch in range(epochs):
        hits = 0
        for pictures, labels in loader:
            optimizer.zero_grad()
            scores = model(pictures.to(device))
            loss = nn.functional.cross_entropy(scores, labels.to(device))
            loss.backward()
            optimizer.step()
            hits += (scores.argmax(1).cpu() == labels).sum().item()
        accuracy = hits / len(loader.dataset)
        print(f"epoch {epoch} loss {loss.item():.4f} accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
