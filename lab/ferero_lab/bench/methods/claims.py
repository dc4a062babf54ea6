"""What each method can do, as small experiments that answer yes or no: the ticks of docs/methods.md.

All of them are deterministic, take seconds, and are repeated in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, radians, sin
from typing import Any, NamedTuple

import torch
from torch import Tensor

import ferero
from ferero.methods import Method, Observation
from ferero.preference import Preference
from ferero_lab.bench.measure import Row
from ferero_lab.problems import ConvexQuadratics, Exponential, Problem

__all__ = ["CLAIMS", "SETTINGS", "ClaimSetting", "bench_claims"]

ANGLES = (30.0, 45.0, 60.0)
NEAR, CLOSE = 1.0, 0.01  # degrees from the ray, distance from the front
LAST = 20  # steps that must all be there, so that passing by does not count


class ClaimSetting(NamedTuple):
    """A method, and the fixed step with which it is tried."""

    method: Method[Any]
    step: float = 0.1
    max_iter: int = 2000


SETTINGS: dict[str, ClaimSetting] = {
    "Ferero": ClaimSetting(ferero.Ferero(bound=10.0), max_iter=600),
    "FereroSA": ClaimSetting(ferero.FereroSA(gamma=0.3, bound=10.0), 0.05, 2000),
    "FereroPI": ClaimSetting(ferero.FereroPI(), 0.05, 2000),
    "FereroQG": ClaimSetting(ferero.FereroQG(), max_iter=600),
    "LinearScalarization": ClaimSetting(ferero.LinearScalarization(), max_iter=600),
    "Tchebycheff": ClaimSetting(ferero.Tchebycheff(), 0.02, 1500),
    "SmoothTchebycheff": ClaimSetting(ferero.SmoothTchebycheff(mu=0.005), 0.02, 1500),
    "MGDA": ClaimSetting(ferero.MGDA(), max_iter=600),
    "PMTL": ClaimSetting(ferero.PMTL(), max_iter=600),
    "EPO": ClaimSetting(ferero.EPO(), max_iter=600),
    "WCMGDA": ClaimSetting(ferero.WCMGDA(), max_iter=600),
    "XWCMGDA": ClaimSetting(ferero.XWCMGDA(), max_iter=600),
}


def bench_claims(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:  # noqa: ARG001
    """One row for each method and claim, 1 for yes."""
    rows = []
    for name, setting in SETTINGS.items():
        for claim, holds in CLAIMS.items():
            rows.append(Row("claims", f"{name}: {claim}", float(holds(setting)), higher_is_better=True))
            tick()
    return rows, []


# what it understands --------------------------------------------------------------------------------------


def _understands(preference: Preference) -> Callable[[ClaimSetting], bool]:
    return lambda setting: setting.method.understands(preference) is None


def _kinds() -> dict[str, Preference]:
    f = ferero.objectives("a", "b")
    return {
        "takes a ray": Preference.ray([1.0, 2.0]),
        "takes a shifted ray": Preference.ray([1.0, 2.0], through=[0.1, 0.2]),
        "takes thresholds": Preference(f, [f.a <= 0.3]),
        "takes any linear equality": Preference(f, [f.a - f.b == 0.1]),
        "takes another order": Preference.pareto(2, cone=ferero.Cone([[1.0, 0.2], [0.2, 1.0]])),
    }


def _needs_one_backward_pass(setting: ClaimSetting) -> bool:
    return "gramian" not in setting.method.requires


# where it ends --------------------------------------------------------------------------------------------


def _reaches(problem: Problem, start: Tensor, setting: ClaimSetting) -> bool:
    """Whether every ray is reached, and the front with it."""
    return all(_reaches_ray(problem, start, setting, angle) for angle in ANGLES)


def _reaches_ray(problem: Problem, start: Tensor, setting: ClaimSetting, degrees: float) -> bool:
    ray = torch.tensor([cos(radians(degrees)), sin(radians(degrees))], dtype=torch.float64)
    preference = Preference.ray(ray)
    if setting.method.understands(preference) is not None:
        return False
    method, step, most = setting
    r = ferero.minimize(problem, start, preference, method=method, step=step, max_iter=most)
    last = torch.as_tensor(r.history.losses[-LAST:])
    off = max(float(problem.distance_to_front(losses)) for losses in last)
    return float(ferero.ray_error(last, ray).max()) < NEAR and off < CLOSE


def _reaches_rays_on_a_convex_front(setting: ClaimSetting) -> bool:
    problem = ConvexQuadratics(m=2, n=5)
    return _reaches(problem, problem.centres.mean(dim=0) + 0.5, setting)


def _reaches_rays_on_a_concave_front(setting: ClaimSetting) -> bool:
    problem = Exponential()
    start = 0.1 * torch.linspace(-1, 1, problem.n, dtype=torch.float64)
    return _reaches(problem, start, setting)


def _walks_along_the_front(setting: ClaimSetting) -> bool:
    """From near one end of a convex front to its inside, where one loss must rise."""
    problem = ConvexQuadratics(m=2, n=5)
    first, second = problem.centres
    return _reaches_ray(problem, 0.9 * first + 0.1 * second, setting, 55.0)


# how it reads the losses -------------------------------------------------------------------------------------


def _has_no_units(setting: ClaimSetting) -> bool:
    """Whether the direction stays when one loss is measured in another unit, and the ray with it (m = 3)."""
    generator = torch.Generator().manual_seed(1)
    J = torch.randn(3, 6, generator=generator, dtype=torch.float64)
    ray = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    units = torch.tensor([1.0, 1.0, 1e3], dtype=torch.float64)
    first = _direction(setting.method, J, 0.4 * ray, ray)
    second = _direction(setting.method, units[:, None] * J, 0.4 * units * ray, units * ray)
    return bool(torch.nn.functional.cosine_similarity(first, second, dim=0) > 1 - 1e-6)


def _direction(method: Method[Any], J: Tensor, losses: Tensor, ray: Tensor) -> Tensor:
    """That of the third decision at one place, so that methods which learn have learned something."""
    preference = Preference.ray(ray)
    if method.understands(preference) is not None:
        preference = Preference.pareto(len(ray))
    state, slopes = method.init(preference), None
    for _ in range(3):
        decision, state = method.update(preference, Observation(losses, J @ J.T, slopes), state)
        slopes = -J @ (J.T @ decision.weights)
    return J.T @ decision.weights


def _leaves_weak_optima(setting: ClaimSetting) -> bool:
    """Whether it moves where one loss is 0 and cannot fall, and the other can."""
    losses = torch.tensor([0.0, 1.0], dtype=torch.float64)
    J = torch.tensor([[0.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    preference, state, slopes = Preference.pareto(2), setting.method.init(Preference.pareto(2)), None
    for _ in range(200):
        decision, state = setting.method.update(preference, Observation(losses, J @ J.T, slopes), state)
        slopes = -J @ (J.T @ decision.weights)
    return bool((J.T @ decision.weights).norm() > 0.1)


CLAIMS: dict[str, Callable[[ClaimSetting], bool]] = {
    **{claim: _understands(preference) for claim, preference in _kinds().items()},
    "needs one backward pass a step": _needs_one_backward_pass,
    "reaches rays on a convex front": _reaches_rays_on_a_convex_front,
    "reaches rays on a concave front": _reaches_rays_on_a_concave_front,
    "walks along the front": _walks_along_the_front,
    "has no units": _has_no_units,
    "leaves weak optima": _leaves_weak_optima,
}
