"""What is compared: ferero's `Steer`, and Cooper's nuPI and augmented Lagrangian on the same constraints.

Each is a map from the losses (m,) of a batch to the scalar that is differentiated, so that all of them are trained by
the same loop. Cooper runs in its dual-primal order, which costs one forward pass, as `Steer` does, and has no lag: the
multipliers see the batch before the model takes its step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import cooper
import torch
from cooper.formulations import AugmentedLagrangian, Formulation, Lagrangian
from torch import Tensor

import ferero

__all__ = ["METHODS", "CooperLoss", "Method", "Setting"]

Setting = Mapping[str, float]


class Constraints(cooper.ConstrainedMinimizationProblem):
    """``minimise a.F subject to B_g F + b_g <= 0, B_h F + b_h == 0``, with the preference's rows as they are.

    The objective a is the one row of A where it has one, else the uniform mean of the losses.

    Args:
        preference: A and the rows, of unit length for a ray.
        formulation: Cooper's.
        penalty: The penalty coefficient of all rows; None where the formulation has none.
        dtype: That of the losses.
    """

    def __init__(
        self,
        preference: ferero.Preference,
        formulation: type[Formulation],
        penalty: float | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        p = preference.to(torch.device("cpu"), dtype)
        self.objective = p.A[0] if len(p.A) == 1 else torch.full((p.m,), 1 / p.m, dtype=dtype)
        self.rows: dict[str, tuple[Tensor, Tensor]] = {}
        for name, kind, B, b in (
            ("inequalities", cooper.ConstraintType.INEQUALITY, p.B_g, p.b_g),
            ("equalities", cooper.ConstraintType.EQUALITY, p.B_h, p.b_h),
        ):
            if not len(b):
                continue
            self.rows[name] = (B, b)
            constraint = cooper.Constraint(
                constraint_type=kind,
                formulation_type=formulation,
                multiplier=cooper.multipliers.DenseMultiplier(num_constraints=len(b), dtype=dtype),
                penalty_coefficient=None
                if penalty is None
                else cooper.penalty_coefficients.DensePenaltyCoefficient(torch.tensor(penalty, dtype=dtype)),
            )
            setattr(self, name, constraint)

    def compute_cmp_state(self, losses: Tensor) -> cooper.CMPState:
        """The objective and the violations of these losses."""
        observed = {
            getattr(self, name): cooper.ConstraintState(violation=B @ losses + b) for name, (B, b) in self.rows.items()
        }
        return cooper.CMPState(loss=self.objective @ losses, observed_constraints=observed)


class CooperLoss:
    """One step of `cooper.optim.AlternatingDualPrimalOptimizer`, the model's own step left to the loop around it.

    Args:
        preference: What is wanted.
        formulation: Cooper's.
        dual: From the multipliers to their optimizer.
        penalty: See `Constraints`.
    """

    def __init__(
        self,
        preference: ferero.Preference,
        formulation: type[Formulation],
        dual: Callable[[list[Tensor]], torch.optim.Optimizer],
        penalty: float | None = None,
    ) -> None:
        self._make = lambda dtype: Constraints(preference, formulation, penalty, dtype)
        self._dual = dual
        self.problem: Constraints | None = None

    def __call__(self, losses: Tensor) -> Tensor:
        """Move the multipliers by this batch, and return the primal Lagrangian with the new ones."""
        if self.problem is None:
            self.problem = self._make(losses.dtype)
            self.optimizer = self._dual(list(self.problem.dual_parameters()))
        state = self.problem.compute_cmp_state(losses)
        self.optimizer.zero_grad(set_to_none=True)
        state.compute_dual_lagrangian().backward()
        self.optimizer.step()
        for multiplier in self.problem.multipliers():
            multiplier.post_step_()
        return state.compute_primal_lagrangian().lagrangian


@dataclass(frozen=True)
class Method:
    """A method and its small search.

    Attributes:
        name: For the table.
        make: From a preference and a setting to the map from losses to a scalar.
        grid: The settings that are tried.
        default: The setting that a user gets who gives none; None where there is none.
    """

    name: str
    make: Callable[[ferero.Preference, Setting], Callable[[Tensor], Tensor]]
    grid: tuple[Setting, ...]
    default: Setting | None = None


def _ferero(preference: ferero.Preference, setting: Setting) -> Callable[[Tensor], Tensor]:
    return ferero.Steer(preference, ferero.FereroPI(**setting))


def _nupi(preference: ferero.Preference, setting: Setting) -> Callable[[Tensor], Tensor]:
    """``lam <- lam + K_I e_t + K_P (xi_t - xi_(t-1))`` with xi the errors e smoothed by nu."""

    def dual(multipliers: list[Tensor]) -> torch.optim.Optimizer:
        return cooper.optim.nuPI(
            multipliers, lr=1.0, Kp=setting["Kp"], Ki=setting["Ki"], ema_nu=setting.get("nu", 0.0), maximize=True
        )

    return CooperLoss(preference, Lagrangian, dual)


def _augmented(preference: ferero.Preference, setting: Setting) -> Callable[[Tensor], Tensor]:
    """``lam <- lam + lr e_t``; the penalty ``c |e|^2 / 2`` is added to the Lagrangian."""

    def dual(multipliers: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(multipliers, lr=setting["lr"], maximize=True)

    return CooperLoss(preference, AugmentedLagrangian, dual, setting["penalty"])


def _grid(**values: tuple[float, ...]) -> tuple[Setting, ...]:
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))


_P, _I = ferero.FereroPI().proportional, ferero.FereroPI().integral
METHODS = (
    Method(
        "ferero",
        _ferero,
        _grid(proportional=(_P / 2, _P), integral=(_I / 3, _I, 3 * _I)),
        {"proportional": _P, "integral": _I},
    ),
    # At nu = 0 nuPI and the augmented Lagrangian are the same on equalities, so each searches where the other does not.
    Method(
        "nuPI",
        _nupi,
        _grid(Ki=(0.01, 0.1), Kp=(1.0, 3.0), nu=(0.0,)) + _grid(Ki=(0.01, 0.1), Kp=(3.0,), nu=(0.9,)),
    ),
    Method("ALM", _augmented, _grid(lr=(0.01, 0.1, 1.0), penalty=(1.0, 3.0))),
)
