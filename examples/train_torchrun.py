"""Several processes: every rank computes the same weights from the losses of the joint batch.

    torchrun --standalone --nproc_per_node 2 examples/train_torchrun.py

Also runs as a single process.
"""

import torch
import torch.distributed.nn  # import before the group exists: a later import (as by DDP) keeps the group alive
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import ferero

if distributed.is_torchelastic_launched():
    distributed.init_process_group("gloo")
else:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
rank, ranks = distributed.get_rank(), distributed.get_world_size()

torch.manual_seed(0)  # the same model and data on every rank
x = torch.randn(512, 8)
y, z = x[:, 0] - x[:, 1], x[:, 0] + x[:, 1]
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
f = ferero.objectives("left", "right")
steer = ferero.Steer(ferero.Preference(f, [f.left == 2 * f.right]))

for _ in range(400):
    batch = torch.randint(512, (64,))[rank::ranks]  # this rank's share
    out = model(x[batch])[:, 0]
    loss = steer({"left": (out - y[batch]).square().mean(), "right": (out - z[batch]).square().mean()})
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

if rank == 0:
    print(steer.report())
    left, right = steer.losses
    print(f"left over right, with {ranks} processes: {left / right:.1f}")
del model, out, loss  # releases the group's threads, which must not outlive the interpreter
distributed.destroy_process_group()
