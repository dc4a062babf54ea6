"""Does a run of Cooper go on to the last bit after it was saved? Writes benchmarks/results/cooper-resume.json.

As Cooper's documentation has it: the dual optimizer gets ``problem.dual_parameters()``, and problem and optimizers are
saved and loaded by their ``state_dict``.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import cooper
import torch
from torch import Tensor

import ferero
from ferero_lab.bench.measure import environment
from ferero_lab.report import to_json, write_file
from methods import METHODS, CooperLoss, Method

RESULT = Path(__file__).parents[1] / "results/cooper-resume.json"
TRIALS, STEPS, SAVED_AFTER = 50, 100, 70


def main() -> None:
    """Each of Cooper's methods, with one kind of constraint and with two."""
    torch.set_num_threads(1)
    f = ferero.objectives("xx", "yy", "x", "y")
    equality, inequality = f.x + f.y == 1.0, f.x <= 0.3
    wanted = {"one constraint": [equality], "an equality and an inequality": [equality, inequality]}
    rows = [
        {"method": method.name, "constraints": name, "setting": dict(method.grid[-1]), "trials": TRIALS,
         "same": sum(_is_the_same(method, ferero.Preference(f, each, minimize=f.xx + f.yy)) for _ in range(TRIALS))}
        for method in METHODS[1:]
        for name, each in wanted.items()
    ]  # fmt: skip
    for row in rows:
        print(f"{row['method']}, {row['constraints']}: {row['same']} of {row['trials']} runs go on to the last bit")
    result = {"name": "cooper-resume", "cooper": cooper.__version__, "environment": environment(), "rows": rows}
    write_file(RESULT, to_json(result).encode())


def _is_the_same(method: Method, preference: ferero.Preference) -> bool:
    return torch.equal(*(_end(method, preference, saved_after) for saved_after in (None, SAVED_AFTER)))


def _end(method: Method, preference: ferero.Preference, saved_after: int | None) -> Tensor:
    theta, problem, optimizer = _begin(method, preference)
    for step in range(STEPS):
        if step == saved_after:
            point, saved = theta.detach().clone(), deepcopy((problem.state_dict(), optimizer.state_dict()))
            theta, problem, optimizer = _begin(method, preference)
            theta.data.copy_(point)
            problem.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
        optimizer.roll(compute_cmp_state_kwargs={"losses": torch.cat([theta.square(), theta])})
    return theta.detach()


def _begin(
    method: Method, preference: ferero.Preference
) -> tuple[Tensor, cooper.ConstrainedMinimizationProblem, cooper.optim.AlternatingDualPrimalOptimizer]:
    loss = method.make(preference, method.grid[-1])
    assert isinstance(loss, CooperLoss)
    theta = torch.tensor([1.0, -1.0], dtype=torch.float64, requires_grad=True)
    problem = loss._make(torch.float64)
    primal, dual = torch.optim.SGD([theta], lr=0.05), loss._dual(list(problem.dual_parameters()))
    return theta, problem, cooper.optim.AlternatingDualPrimalOptimizer(problem, primal, dual)


if __name__ == "__main__":
    main()
