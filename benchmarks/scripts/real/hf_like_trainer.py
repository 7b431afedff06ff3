# kind: 3, 11 a Trainer with state, callbacks, accumulation and a linear schedule with warm-up
# leave out: metrics of grow: three replicas share 8 samples as 3, 3 and 2, so that means over batches differ
import math
from dataclasses import dataclass, field

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainingArguments:
    num_train_epochs: int = 6
    per_device_train_batch_size: int = 8
    gradient_accumulation_steps: int = 2
    learning_rate: float = 0.05
    max_grad_norm: float = 1.0
    warmup_steps: int = 5


@dataclass
class TrainerState:
    global_step: int = 0
    epoch: float = 0.0
    log_history: list = field(default_factory=list)


class Texts(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(0)
        self.ids = torch.randint(0, 20, (108, 6), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"idx": i, "input_ids": self.ids[i], "labels": self.ids[i].sum() % 3}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.classifier = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, input_ids, labels=None):
        logits = self.classifier(self.embeddings(input_ids).mean(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Trainer:
    def __init__(self, model, args, train_dataset):
        self.model, self.args, self.state = model, args, TrainerState()
        loader = DataLoader(train_dataset, batch_size=args.per_device_train_batch_size)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
        updates = math.ceil(len(loader) / args.gradient_accumulation_steps) * args.num_train_epochs
        warm = args.warmup_steps
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda s: s / warm if s < warm else (updates - s) / (updates - warm)
        )
        self.model, self.optimizer, self.loader, self.lr_scheduler = coadapt.prepare(
            model, self.optimizer, loader, self.lr_scheduler
        )

    def training_step(self, inputs):
        loss = self.model(inputs["input_ids"], labels=inputs["labels"])["loss"]
        (loss / self.args.gradient_accumulation_steps).backward()
        return loss.detach()

    def train(self):
        args, state = self.args, self.state
        tr_loss = torch.tensor(0.0)
        for epoch in coadapt.epochs(args.num_train_epochs):
            steps_in_epoch = len(self.loader)
            for step, inputs in enumerate(self.loader):
                saw(inputs["idx"], epoch)
                tr_loss += self.training_step(inputs)
                if (step + 1) % args.gradient_accumulation_steps == 0 or step + 1 == steps_in_epoch:
                    nn.utils.clip_grad_norm_(self.model.parameters(), args.max_grad_norm)
                    self.optimizer.step()
                    self.lr_scheduler.step()
                    self.model.zero_grad()
                    state.global_step += 1
                    state.epoch = epoch + (step + 1) / steps_in_epoch
            coadapt.report(loss=tr_loss.item() / steps_in_epoch, lr=self.lr_scheduler.get_last_lr()[0])
            tr_loss -= tr_loss


torch.manual_seed(0)
trainer = Trainer(Model(), TrainingArguments(), Texts())
trainer.train()
save(trainer.model, step=trainer.state.global_step, epoch=trainer.state.epoch)
