"""Where the runs of the synthetic figures begin, and what they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor

import ferero
from ferero.preference import Preference
from ferero_lab.problems import Exponential

__all__ = ["STARTS", "WANTED", "Wish", "draw_starts", "even_rays", "make_wishes"]

STARTS = {
    "printed": "N(0, 1), as the paper prints it",
    "released": "+-0.3 alternating + 0.1 N(0, 1), as its released code has it",
    "easy": "U[-0.3, 0.3]",
    "hard": "U[0.15, 0.5] with one random sign per run",
}
STILL = 1e-9  # of the start's losses: a change as small as that has no direction
WANTED = {"rays": "rays from the origin", "lines": "lines through the losses of the start", "nothing": "any optimum"}


@dataclass(frozen=True)
class Wish:
    """One run's preference, and how to tell whether it was met.

    Attributes:
        angle: of its ray or line to the first axis, in degrees.
        preference: what the method is given.
        ray: the direction (2,), unit; losses are measured along it from ``through``.
        through: where it begins, (2,).
    """

    angle: float
    preference: Preference
    ray: Tensor
    through: Tensor

    def error(self, losses: Tensor) -> float:
        """The angle between where losses (2,) lie and where they are wanted, in degrees; NaN if they did not move."""
        along = losses - self.through
        has_moved = float(along.abs().max()) > STILL * float(self.through.abs().max())
        return float(ferero.ray_error(along, self.ray)) if has_moved else float("nan")

    def violation(self, losses: Tensor) -> float:
        """The distance of losses (2,) from the ray's line."""
        along = losses - self.through
        return float((along - (along @ self.ray) * self.ray).norm())


def even_rays(count: int) -> Tensor:
    """The paper's unit vectors (count, 2): at equal distances between pi/20 and 9 pi/20."""
    angles = torch.linspace(0.05, 0.45, count, dtype=torch.float64) * pi
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def draw_starts(kind: str, count: int, seed: int) -> Tensor:
    """Starting points (count, 20) of one of `STARTS`, the same for every method."""
    generator, problem = torch.Generator().manual_seed(seed), Exponential()
    if kind in ("easy", "hard"):
        return problem.starts(kind, count, generator)
    noise = torch.randn(count, problem.n, generator=generator, dtype=torch.float64)
    if kind == "printed":
        return noise
    alternating = torch.full((problem.n,), 0.3, dtype=torch.float64)
    alternating[1::2] *= -1
    return alternating + 0.1 * noise


def make_wishes(
    wanted: str, count: int, start: str, seed: int, A: list[list[float]] | None
) -> tuple[list[Wish], Tensor]:
    """What one seed's runs are asked for, and where they begin.

    Args:
        wanted: one of `WANTED`.
        count: how many directions.
        start: one of `STARTS`.
        seed: of the starts.
        A: the rows of the order's cone; None for the orthant.

    Returns:
        The wishes, and starts (count, 20): one for each, or one for all where lines go through its losses.
    """
    starts, origin = draw_starts(start, count, seed), torch.zeros(2, dtype=torch.float64)
    rays = even_rays(count)
    cone = None if A is None else ferero.Cone(A)
    angles = [float(torch.rad2deg(torch.atan2(ray[1], ray[0]))) for ray in rays]
    if wanted == "lines":
        starts = starts[:1].expand(count, -1).clone()
        begin = Exponential()(starts[0])
        lines = [Preference.between(begin - 0.5 * ray, begin, cone=cone) for ray in rays]
        return [Wish(a, p, -ray, begin) for a, p, ray in zip(angles, lines, rays, strict=True)], starts
    made = [Preference.ray(ray, cone=cone) if wanted == "rays" else Preference.pareto(2, cone=cone) for ray in rays]
    return [Wish(a, p, ray, origin) for a, p, ray in zip(angles, made, rays, strict=True)], starts
