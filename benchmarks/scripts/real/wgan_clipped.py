# kind: 11 a Wasserstein critic, clamped by hand after each step; the generator steps every third batch
# leave out: repeats of accumulate: a batch is done again, in one pass, when it is seen that the script clamps
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
real_data = torch.randn(128, 2) * 0.5 + 1
noise = torch.randn(128, 3)
critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
maker = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
opt_c = torch.optim.RMSprop(critic.parameters(), lr=5e-3, eps=1e-3)
opt_m = torch.optim.RMSprop(maker.parameters(), lr=5e-3, eps=1e-3)
loader = DataLoader(TensorDataset(real_data, noise), batch_size=16)
critic, maker, opt_c, opt_m, loader = coadapt.prepare(critic, maker, opt_c, opt_m, loader)
for epoch in coadapt.epochs(4):
    for i, (real, z) in enumerate(loader):
        saw(real, epoch)
        opt_c.zero_grad()
        (critic(maker(z).detach()).mean() - critic(real).mean()).backward()
        opt_c.step()
        for p in critic.parameters():
            p.data.clamp_(-0.1, 0.1)
        if i % 3 == 2:
            opt_m.zero_grad()
            (-critic(maker(z)).mean()).backward()
            opt_m.step()
save({"critic": critic, "maker": maker})
