"""A front by two worker processes; finished points are saved, so the same call resumes after a crash."""

import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from torch import nn

import ferero


def train_one(preference):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(512, 8)
    y, z = x[:, 0] - x[:, 1], x[:, 0] + x[:, 1]
    model, steer = nn.Linear(8, 1), ferero.Steer(preference)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(400):
        batch = torch.randint(512, (64,))
        out = model(x[batch])[:, 0]
        steer([(out - y[batch]).square().mean(), (out - z[batch]).square().mean()]).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        out = model(x)[:, 0]
    return [(out - y).square().mean(), (out - z).square().mean()]


def two_workers():
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


def progress(done, total):
    print(f"{done} of {total} points")


if __name__ == "__main__":
    rays = ferero.spread(2, 4)
    with tempfile.TemporaryDirectory() as folder:  # use a permanent folder
        front = ferero.sweep(train_one, rays, executor=two_workers, folder=folder, progress=progress)
        print(front)
        print("the same call again finds every point finished:")
        ferero.sweep(train_one, rays, executor=two_workers, folder=folder, progress=progress)
    print(f"largest ray error: {front.ray_errors().max():.1f} degrees")
