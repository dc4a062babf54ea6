"""Is Cooper used as it is meant? A problem with a known answer, and its own optimizer step for step.

And are the rules of `ferero_lab.bench.tasks.rivals`, which train many settings at once, those of Cooper? The augmented
Lagrangian is. nuPI is as Cooper's documentation has it; the code of cooper-optim 1.0.1 begins otherwise, see
`check_rules`.
"""

from __future__ import annotations

import cooper
import torch
from torch import Tensor

import ferero
from ferero_lab.bench.tasks.rivals import RIVALS, Rival, Rivals
from methods import METHODS, Constraints, CooperLoss

__all__ = ["check", "check_rules"]


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


def check_rules(steps: int = 200) -> dict[str, float]:
    """Hold the lab's rules to Cooper's weights on the same losses, whatever they are.

    Cooper's nuPI documents ``xi_-1 = e_0``, so that the first step adds nothing for K_P and the second
    ``K_P (1 - nu) (e_1 - e_0)``. Its code keeps ``xi = 0`` after the first step, so that the second adds
    ``K_P (1 - nu) e_1``, and after t more steps its multiplier is larger by ``K_P (1 - nu^t) e_0``, as far as no
    clipping at 0 forgets it. The lab has the documented rule.

    Returns:
        The largest difference of weights for each rule: "augmented Lagrangian", "nuPI, as documented" and "nuPI, as in
        the code"; the first is held to 1e-12, the second to 1e-5, since Cooper keeps gains in single precision.
    """
    f = ferero.objectives("xx", "yy", "x", "y")
    preference = ferero.Preference(f, [f.x <= 0.3, f.x + f.y == 1.0], minimize=f.xx + f.yy)
    seen = torch.randn(steps, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cumsum(dim=0) / 5
    apart = dict.fromkeys(("augmented Lagrangian", "nuPI, as documented", "nuPI, as in the code"), 0.0)
    for rival in RIVALS:
        if rival.name == "augmented Lagrangian":
            apart[rival.name] = max(apart[rival.name], _difference(preference, rival, seen, False))
        elif rival.name == "nuPI":
            for words, mended in (("as documented", True), ("as in the code", False)):
                name = f"nuPI, {words}"
                apart[name] = max(apart[name], _difference(preference, rival, seen, mended))
    assert apart["augmented Lagrangian"] < 1e-12, apart
    assert apart["nuPI, as documented"] < 1e-5, apart
    return apart


def _difference(preference: ferero.Preference, rival: Rival, seen: Tensor, mended: bool) -> float:
    """The largest difference of the weights over losses (steps, m).

    Args:
        preference: What is wanted.
        rival: The rule and its setting.
        seen: The losses.
        mended: Whether nuPI's first smoothed error is set to what the documentation says.
    """
    method = next(one for one in METHODS if one.name == ("nuPI" if rival.nu is not None else "ALM"))
    names = ("Ki", "Kp", "nu") if rival.nu is not None else ("lr", "penalty")
    setting = dict(zip(names, (rival.rate, rival.proportional, rival.nu), strict=False))
    theirs, ours = method.make(preference, setting), Rivals(preference, (rival,))
    assert isinstance(theirs, CooperLoss)
    worst = 0.0
    for step, values in enumerate(seen):
        losses = values.clone().requires_grad_()
        (weights,) = torch.autograd.grad(theirs(losses), losses)
        worst = max(worst, float((weights - ours(values[None])[0]).abs().max()))
        if step == 0 and mended:
            for multiplier in theirs.problem.multipliers():
                theirs.optimizer.state[multiplier.weight]["xi"] = multiplier.weight.grad.clone()
    return worst


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
    print("Rules of ferero_lab.bench.tasks.rivals, largest difference of weights over 200 steps:")
    for name, value in check_rules().items():
        print(f"  {name}: {value:.1e}")
