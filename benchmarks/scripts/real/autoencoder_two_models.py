# kind: 11 encoder and decoder as two models with an optimizer each
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(120, 10)
encoder, decoder = nn.Linear(10, 4), nn.Linear(4, 10)
enc_opt = torch.optim.Adam(encoder.parameters(), lr=0.01)
dec_opt = torch.optim.Adam(decoder.parameters(), lr=0.02)
enc_sched = torch.optim.lr_scheduler.StepLR(enc_opt, 1, 0.8)
dec_sched = torch.optim.lr_scheduler.ExponentialLR(dec_opt, 0.99)
loader = DataLoader(TensorDataset(x), batch_size=16)
encoder, decoder, enc_opt, dec_opt, enc_sched, dec_sched, loader = coadapt.prepare(
    encoder, decoder, enc_opt, dec_opt, enc_sched, dec_sched, loader
)
for epoch in coadapt.epochs(4):
    for (batch,) in loader:
        saw(batch, epoch)
        enc_opt.zero_grad()
        dec_opt.zero_grad()
        loss = ((decoder(torch.tanh(encoder(batch))) - batch) ** 2).mean()
        loss.backward()
        enc_opt.step()
        dec_opt.step()
        dec_sched.step()
    enc_sched.step()
save({"encoder": encoder, "decoder": decoder}, lrs=[enc_sched.get_last_lr(), dec_sched.get_last_lr()])
