"""A character-level transformer on Python's own reference manual (`pydoc_data.topics`), trained with AdamW.

It reaches a validation loss of 1.8 nats per character. By itself: `python train.py`.
On a cluster: `coadapt submit job.yaml`. `coadapt tune study.yaml` searches its learning rate.
"""

import argparse
from pydoc_data.topics import topics

import coadapt
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CONTEXT = 32  # characters
WIDTH = coadapt.width(48)  # narrower for the trials of a study


def manual() -> tuple[TensorDataset, TensorDataset, int]:
    """Return 2,048 pieces of text for training, 128 for validation, and the number of different characters."""
    text = "".join(topics[name] for name in sorted(topics)).encode("ascii", "ignore")
    codes = torch.tensor(list(text))
    alphabet, tokens = torch.unique(codes, return_inverse=True)
    length = CONTEXT + 1
    pieces = tokens[: len(tokens) // length * length].view(-1, length)
    order = torch.randperm(len(pieces), generator=torch.Generator().manual_seed(0))
    return TensorDataset(pieces[order[:2048]]), TensorDataset(pieces[order[2048:2176]]), len(alphabet)


class CharTransformer(nn.Module):
    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(characters, WIDTH)
        self.position = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, nhead=4, dim_feedforward=coadapt.width(96), dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, characters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map (batch, CONTEXT) characters to (batch, characters, CONTEXT) logits of the next ones."""
        hidden = self.blocks(self.embed(tokens) + self.position, mask=self.mask, is_causal=True)
        return self.head(hidden).transpose(1, 2)


@torch.no_grad()
def validation_loss(model: nn.Module, pieces: torch.Tensor) -> float:
    model.eval()
    loss = nn.functional.cross_entropy(model(pieces[:, :-1]), pieces[:, 1:]).item()
    model.train()
    return loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    epochs = parser.parse_args().epochs

    hp = coadapt.hyperparameters(lr=2e-3)
    torch.manual_seed(0)
    device = coadapt.device()
    train, validation, characters = manual()
    held_out = validation.tensors[0].to(device)
    model = CharTransformer(characters).to(device)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=hp.lr, weight_decay=0.01)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

    for epoch in coadapt.epochs(epochs):
        for (pieces,) in loader:
            pieces = pieces.to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pieces[:, :-1]), pieces[:, 1:])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        nats = validation_loss(model, held_out)
        coadapt.report(loss=loss.item(), validation_loss=nats)
        print(f"epoch {epoch} loss {loss.item():.4f} validation_loss {nats:.4f}", flush=True)


if __name__ == "__main__":
    main()
