"""Twelve portfolios between little risk and much return, and an HTML report of them."""

from pathlib import Path

import torch

import ferero
from ferero_lab.experiments.experiment import Section, Story
from ferero_lab.report import configuration, story_files, write_folder
from ferero_lab.report.panels import FrontPanel, FrontPoint, Segment, Table

generator = torch.Generator().manual_seed(0)
returns = 0.02 + 0.1 * torch.rand(10, generator=generator, dtype=torch.float64)  # a year, ten assets
moves = 2 * returns[:, None] * torch.randn(10, 15, generator=generator, dtype=torch.float64)


def losses(x):
    shares = torch.softmax(x, dim=0)
    risk = (moves.T @ shares).square().mean().sqrt()
    missed = (returns.max() - returns @ shares) / returns.max()
    return torch.stack([risk, missed])


names = ("risk", "missed_return")
preferences = [ferero.Preference.ray(ray, names=names) for ray in ferero.spread(2, 12)]
front = ferero.trace(losses, torch.zeros(10, dtype=torch.float64), preferences)
print(front)

points, segments, rows = [], [], []
for r, error in zip(front, front.ray_errors(), strict=True):
    found, trajectory = r.losses.tolist(), r.history.losses.tolist()
    label = "risk : missed = {:.2f} : {:.2f}".format(*r.preference.ray)
    points.append(FrontPoint(found, "portfolio", label, {"status": r.status}, trajectory, ok=r.success))
    segments.append(Segment([0, 0], (1.3 * r.losses).tolist(), label))
    rows.append([label, *(f"{x:.4f}" for x in found), f"{error:.1e}", r.status])
panel = FrontPanel("Risk and missed return", names, points, segments)
table = Table(["preference", *names, "degrees off", "status"], rows)
lead = f"{sum(r.success for r in front)} of {len(front)} preferences are met."
story = Story("Twelve portfolios", lead, [Section("Front", panels=[panel], tables=[table])], front.to_dict())
folder = Path("traced_report")
write_folder(folder, story_files(story, configuration("traced_report.py")))
print(lead, "Open", folder / "report.html")
