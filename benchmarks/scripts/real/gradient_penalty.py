# kind: 11, 1 WGAN-GP: two models, several critic steps, a penalty by autograd.grad
# leave out: repeats of accumulate chain: the first batch of several steps is done again, in one pass
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def penalty(critic, real, fake, mix):
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


torch.manual_seed(0)
real_data, noise, mixes = torch.randn(128, 2) + 2, torch.randn(128, 4), torch.rand(128, 1)
gen = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 1))
opt_g = torch.optim.SGD(gen.parameters(), lr=0.02)
opt_c = torch.optim.SGD(critic.parameters(), lr=0.02)
loader = DataLoader(TensorDataset(real_data, noise, mixes), batch_size=16)
gen, critic, opt_g, opt_c, loader = coadapt.prepare(gen, critic, opt_g, opt_c, loader)
for epoch in coadapt.epochs(4):
    for i, (real, z, mix) in enumerate(loader):
        saw(real, epoch)
        for _ in range(2):
            opt_c.zero_grad()
            fake = gen(z).detach()
            loss_c = critic(fake).mean() - critic(real).mean() + 10 * penalty(critic, real, fake, mix)
            loss_c.backward()
            opt_c.step()
        if i % 2 == 1:
            opt_g.zero_grad()
            loss_g = -critic(gen(z)).mean()
            loss_g.backward()
            opt_g.step()
save({"gen": gen, "critic": critic})
