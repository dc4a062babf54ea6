"""Algorithm 1 of the paper: the subprogram is solved anew at every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ferero.errors import InputError
from ferero.methods._method import Decision, Observation, Steps, check_observation, in_dtype_of
from ferero.preference import Preference
from ferero.subprogram import Domain, Solver, solve_subprogram
from ferero.subprogram._solve import check_options

__all__ = ["Ferero"]


@dataclass(frozen=True)
class Ferero:
    """FERERO with the subprogram solved at each step (Algorithm 1).

        lam     = argmin  w.K w / 2 - c_g lam_g.G - c_h lam_h.H   over lam_f in Omega, lam_g >= 0, lam_h
        weights = w = A^T lam_f + B_g^T lam_g + B_h^T lam_h

    Cost: m backward passes for the gramian K, and one small program in float64. Understands every preference:
    any cone, inequalities, equalities, none. Choose it for deterministic problems and few losses, where its
    direction is the best there is; for training, where gradients are noisy and m backward passes are dear,
    take a single-loop method.

    Args:
        c_g: How much of the inequalities' violation a unit step should undo.
        c_h: The same for equalities.
        domain: "adaptive" (escapes weak optima, needs A F >= 0) or "simplex" (any losses).
        bound: rho of the elastic form; None solves without one, and falls back on 1000 where the linearised
            constraints contradict each other.
        solver: As for ``solve_subprogram``.

    Example:
        >>> method, preference = Ferero(), Preference.ray([1.0, 1.0])
        >>> observation = Observation(losses=[2.0, 1.0], gramian=[[1.0, 0.0], [0.0, 1.0]])
        >>> decision, state = method.update(preference, observation, method.init(preference))
        >>> [round(x, 6) for x in decision.weights.tolist()]
        [2.0, 1.0]
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses", "gramian"})
    has_merit: ClassVar[bool] = True

    c_g: float = 1.0
    c_h: float = 1.0
    domain: Domain = "adaptive"
    bound: float | None = None
    solver: Solver = "exact"

    def __post_init__(self) -> None:
        check_options(self.c_g, self.c_h, self.solver, self.bound)
        if self.domain not in ("adaptive", "simplex"):
            raise InputError(f'domain: expected "adaptive" or "simplex", found {self.domain!r}.')

    def understands(self, preference: Preference) -> str | None:  # noqa: ARG002  # part of the protocol
        """None: it takes every preference."""
        return None

    def init(self, preference: Preference) -> Steps:  # noqa: ARG002  # part of the protocol
        """The state before the first step."""
        return Steps.none()

    def update(self, preference: Preference, observation: Observation, state: Steps) -> tuple[Decision, Steps]:
        """Solves the subprogram.

        Args:
            preference: For a stack of P the observation has (..., P, m).
            observation: With losses (..., m) and gramian (..., m, m).
            state: From :meth:`init` or the last step.

        Returns:
            The decision, whose ``solution`` carries the certificate, and the next state.

        Raises:
            InputError: An observation without gramian, or one that does not fit.
            NonFiniteError: Losses or gramian that are not finite.
        """
        check_observation(self, preference, observation)
        assert observation.gramian is not None  # checked above
        solution = solve_subprogram(
            preference,
            observation.losses,
            observation.gramian,
            c_g=self.c_g,
            c_h=self.c_h,
            domain=self.domain,
            solver=self.solver,
            bound=self.bound,
        )
        weights = in_dtype_of(solution.weights, observation.losses)
        return Decision(weights, solution.multipliers, solution), state.next()
