"""A small GPT on synthetic sentences, trained in steps with accumulated gradients and clipping.

The script sets the learning rate by hand, with warm-up and a cosine. Sentences differ in length. So a batch is
padded, and its loss is a mean over the other tokens. Sentences come from a grammar that is drawn from a seed,
so the best possible loss is known.
"""

import argparse
import math

import coadapt
import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, LONGEST, PAD, END = 32, 24, -100, 0
BATCH_SIZE, ACCUMULATION = 16, 2
EVAL_EVERY = 50


def make_grammar() -> torch.Tensor:
    """Return (words, words) probabilities of the next word after each word.

    Word 0 begins and ends a sentence.
    """
    generator = torch.Generator().manual_seed(0)
    return torch.softmax(2.5 * torch.randn(VOCABULARY, VOCABULARY, generator=generator), dim=1)


def make_sentences(grammar: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Return (count, LONGEST + 1) words, with PAD after the end of each sentence."""
    words = torch.full((count, LONGEST + 1), PAD)
    words[:, 0] = END
    going = torch.ones(count, dtype=torch.bool)
    for place in range(1, LONGEST + 1):
        word = torch.multinomial(grammar[words[:, place - 1].clamp(min=0)], 1, generator=generator).flatten()
        words[going, place] = word[going]
        going &= word != END
    return words


class GPT(nn.Module):
    def __init__(self, width=48, heads=4, layers=2):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.wpe = nn.Embedding(LONGEST, width)
        block = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight  # tied weights
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LONGEST))
        nn.init.normal_(self.wte.weight, std=0.1)

    def forward(self, words, targets):
        places = torch.arange(words.shape[1], device=words.device)
        hidden = self.blocks(self.wte(words) + self.wpe(places), mask=self.mask, is_causal=True)
        logits = self.lm_head(self.norm(hidden))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)


def get_lr(step, max_steps, highest=6e-3, warmup=40):
    if step < warmup:
        return highest * (step + 1) / warmup
    return highest * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / (max_steps - warmup))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = coadapt.device()
    grammar = make_grammar()
    drawn = torch.Generator().manual_seed(1000 + args.seed)

    def get_batch():
        words = make_sentences(grammar, BATCH_SIZE, drawn)
        return words[:, :-1].clamp(min=0), words[:, 1:]

    held_out = make_sentences(grammar, 512, torch.Generator().manual_seed(1)).to(device)
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, betas=(0.9, 0.95), weight_decay=0.01)
    model, optimizer, batches = coadapt.prepare(model, optimizer, coadapt.batches(get_batch))

    for step in coadapt.steps(args.max_steps):
        for group in optimizer.param_groups:
            group["lr"] = get_lr(step, args.max_steps)
        for _ in range(ACCUMULATION):
            words, targets = next(batches)
            loss = model(words.to(device), targets.to(device)) / ACCUMULATION
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

        if (step + 1) % EVAL_EVERY == 0:
            model.eval()
            with torch.no_grad():
                val_loss = model(held_out[:, :-1].clamp(min=0), held_out[:, 1:]).item()
            model.train()
            coadapt.report(val_loss=val_loss)
            print(f"step {step + 1} val_loss {val_loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
