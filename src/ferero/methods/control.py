"""The single loop in its tracked form: proportional-integral control of the violations, from loss values alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.methods import windows
from ferero.methods.base import Decision, Diagnosis, Observation, check_observation, in_dtype_of
from ferero.methods.rows import Metric, Rows, rows_of
from ferero.methods.swings import ENOUGH, Swings, advance_swings
from ferero.preference import Preference

__all__ = ["FereroPI", "FereroPIState"]

_LETTING_GO = 13.0  # how much faster a large integral falls when its constraint is met, or overshot, for sure
_AGE = 3.0  # the longer memory of sizes over the usual one; how the two differ says whether losses still fall
_FALLING = 0.01  # relative difference of the two from which on a loss still falls for sure


@dataclass(frozen=True, eq=False)
class FereroPIState:
    """What the controller remembers; r rows and c channels as in `Rows`.

    Attributes:
        seen: How often each loss has arrived, (..., m).
        latest: The last value of each, (..., m).
        magnitude: Running mean of its size, (..., m).
        reference: The largest running size so far, (..., m): the unit of the objective part.
        past: Running mean of its size over a longer time, (..., m).
        fresh: 1 for losses that have arrived since each row was last updated, (..., r, m).
        updates: How often each row was updated, (..., r).
        integral: The integral part of the multipliers, (..., r).
        lam: The multipliers of the rows before the weights are normalised, (..., r).
        levels: Running values of the rows over every window, (..., windows, r).
        errors: How well each window predicts, relative to the size of the row's terms, (..., windows, c).
        weights: The last weights, (..., m).
        anchor: The largest deviation of the current half swing, (..., r).
        peak: Its size in the last half swing, relative, (..., c).
        swings: Half swings in a row that did not die out, (..., c).
        calm: Factor on the integral gain; below 1 once swings were seen, (..., c).
    """

    seen: Tensor
    latest: Tensor
    magnitude: Tensor
    reference: Tensor
    past: Tensor
    fresh: Tensor
    updates: Tensor
    integral: Tensor
    lam: Tensor
    levels: Tensor
    errors: Tensor
    weights: Tensor
    anchor: Tensor
    peak: Tensor
    swings: Tensor
    calm: Tensor

    def like(self, losses: Tensor, dtype: torch.dtype) -> FereroPIState:
        """The same state on the losses' device and with their leading dimensions."""
        missing = losses.ndim - self.seen.ndim
        if missing == 0 and self.seen.device == losses.device and self.seen.dtype == dtype:
            return self

        def move(tensor: Tensor) -> Tensor:
            tensor = tensor.to(losses.device, dtype)
            return tensor.expand(*losses.shape[:missing], *tensor.shape) if missing > 0 else tensor

        return FereroPIState(*(move(getattr(self, field.name)) for field in fields(self)))


@dataclass(frozen=True)
class FereroPI:
    """FERERO's single loop on loss values alone: proportional-integral control of the violations.

    With running sizes s of the losses, S = diag(s), their largest r so far, and the objective part ``w_o = A^T lam_f``:

        e   = D^-1 [G; H]                      D = B S^2 B^T + b b^T   (for inequalities its diagonal)
        I   <- clip(I + k_I Omega e)           integral, on the values as they come
        lam  = clip(I + k_P Omega e_level)     proportional, on the level over the window that predicts best
        w    = w_o + B_g^T lam_g + B_h^T lam_h, divided by max(1, |w|.r / |w_o|.r)

    Omega is how far the losses of a constraint have come down, the mean of s / r: force falls with them, so
    that the loop keeps its speed relative to theirs; but not below what the constraint itself asks for.
    clip keeps inequalities in [0, rho] and equalities within a ball of radius rho, in units of ``Omega / sqrt(D)``.
    The equalities' I outweighs the objective part of a loss, and so pushes that loss up, only as far as their other
    losses have come to rest, and lets go of it once the equalities are overshot.
    lam_f is fixed: with one row of A it is 1 (the expression itself is minimised), with several it is uniform after
    each row is divided by its largest running size (as a rule that at the start), and sums to 1.

    D makes the gains dimensionless: the answer does not depend on the units of the losses, on their order, or on the
    basis chosen for B_h. With the slopes that were realised Algorithm 2 of the paper *is* this controller (its sum
    telescopes), k_P = gamma / alpha and k_I = gamma c; docs/steering.md derives it, says for which gains and step
    sizes it is stable on convex and concave fronts, and what of the paper's guarantees is left.

    Cost: that of the weighted sum. Understands every preference. Choose it in training; for smooth deterministic
    problems `Ferero` in `minimize` is faster and exact.

    Args:
        proportional: k_P. Below about 0.5 a concave front repels; far above 1 a large step size overshoots.
        integral_time: Steps in which the integral adds what the proportional part gives: k_I = k_P / integral_time.
        bound: rho, the largest size of a constraint's part in the weights, in units of the objective part.

    Example:
        >>> method, preference = FereroPI(), Preference.ray([1.0, 1.0])
        >>> decision, state = method.update(preference, Observation([2.0, 1.0]), method.init(preference))
        >>> decision.weights.tolist()[0] > decision.weights.tolist()[1]  # the loss that is too large counts more
        True
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses"})
    has_merit: ClassVar[bool] = False

    proportional: float = 1.0
    integral_time: float = 100.0
    bound: float = 10.0

    def __post_init__(self) -> None:
        for name in ("proportional", "integral_time", "bound"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"{name}: expected a positive finite number, found {value!r}.")

    def understands(self, preference: Preference) -> str | None:  # noqa: ARG002  # part of the protocol
        """None: it takes every preference."""
        return None

    def init(self, preference: Preference) -> FereroPIState:
        """Nothing seen, all multipliers 0."""
        m, r = preference.m, preference.m_g + preference.m_h
        c = preference.m_g + (preference.m_h > 0)
        zeros = preference.A.new_zeros(preference.batch_shape)

        def of(*shape: int) -> Tensor:
            return zeros[(...,) + (None,) * len(shape)].expand(*preference.batch_shape, *shape).clone()

        return FereroPIState(
            seen=of(m),
            latest=of(m),
            magnitude=of(m),
            reference=of(m),
            past=of(m),
            fresh=of(r, m),
            updates=of(r),
            integral=of(r),
            lam=of(r),
            levels=of(windows.COUNT, r),
            errors=of(windows.COUNT, c),
            weights=of(m),
            anchor=of(r),
            peak=of(c),
            swings=of(c),
            calm=of(c) + 1,
        )

    def update(
        self, preference: Preference, observation: Observation, state: FereroPIState
    ) -> tuple[Decision, FereroPIState]:
        """Takes one step of the controller. Without a host synchronisation where the losses are on a GPU.

        Args:
            preference: What is wanted; for a stack of P the observation has (..., P, m).
            observation: With losses (..., m); those not present keep their weights, and a constraint waits until
                all its names have arrived.
            state: From :meth:`init` or the last step.

        Returns:
            The decision and the next state.

        Raises:
            InputError: An observation that does not fit.
            NonFiniteError: Losses that are not finite (looked for on the CPU only).
        """
        check_observation(self, preference, observation)
        losses = observation.losses.detach()
        dtype = torch.float32 if losses.device.type == "mps" else torch.float64
        old = state.like(losses, dtype)
        present = observation.present
        rows = rows_of(preference, losses.device, dtype)

        seen, latest, magnitude, reference, past = _track(losses.to(dtype), present, old)
        largest = _known(reference)
        lam_f = _objective_part(rows.A, largest)
        objective = (lam_f[..., None, :] @ rows.A)[..., 0, :]

        fresh, complete = _arrivals(rows, present, old.fresh)
        arrived = rows.real if present is None else complete.to(dtype)
        updates = old.updates + arrived
        metric = rows.metric(magnitude, None if present is None else arrived)
        price = _price(metric, arrived, magnitude, largest)
        values = rows.values(latest)
        levels, misses = windows.advance_levels(old.levels, values, updates, arrived)
        errors = windows.advance_errors(
            old.errors, metric.squares(misses), rows.by_channel(updates), rows.by_channel(arrived)
        )
        noise, window = errors.min(dim=-2)
        level = windows.best_level(levels, rows.by_row(window))
        swings = advance_swings(Swings(old.anchor, old.peak, old.swings, old.calm), level, noise, metric)
        if rows.margins is not None:
            margin = rows.margins * _standard_error(noise, 1 / windows.LONGEST, metric)
            values, level = values + margin, level + margin

        gain = self.proportional * rows.by_row(price)
        slowly = gain * rows.by_row(swings.calm) / self.integral_time
        push = values
        if rows.m_g:
            push = values + _relief(level, noise, window, old.integral, metric, price)
        integral = old.integral + slowly * metric.divide(push * arrived)
        integral = _clip(integral, metric, price, self.bound)
        if rows.m_g < rows.count:
            rest = _rest(objective + (old.lam[..., None, :] @ rows.B)[..., 0, :], objective, magnitude, past, rows)
            over = _overshoot(level, noise, window, old.integral, metric)
            grip = (1 - _LETTING_GO * self.proportional / self.integral_time * over).clamp(min=0)
            integral = _spare(integral, old.integral, objective, rest, grip, rows)
        pull = gain * metric.divide(level * arrived)
        lam = _clip(integral + pull, metric, price, self.bound)
        if present is not None:
            integral, lam = torch.where(complete, integral, old.integral), torch.where(complete, lam, old.lam)

        total = objective + (lam[..., None, :] @ rows.B)[..., 0, :]
        crowding = (total.abs() * largest).sum(dim=-1, keepdim=True).clamp(min=1)
        unit = lam_f.sum(dim=-1, keepdim=True) * crowding  # so far the objective part is 1 at the largest sizes
        weights = total / unit
        weights = weights if present is None else torch.where(present | (old.seen == 0), weights, old.weights)
        new = FereroPIState(
            seen, latest, magnitude, reference, past, fresh, updates, integral, lam, levels, errors, weights,
            swings.anchor, swings.peak, swings.count, swings.calm,
        )  # fmt: skip
        return Decision(in_dtype_of(weights, losses), torch.cat([lam_f, lam], dim=-1) / unit), new

    def diagnose(self, preference: Preference, state: FereroPIState) -> Diagnosis:
        """Which multipliers are at their bound, and which violations swing."""
        rows = rows_of(preference, state.lam.device, state.lam.dtype)
        metric = rows.metric(state.magnitude)
        size = metric.sizes(state.lam) / _price(metric, rows.real, state.magnitude, _known(state.reference))
        return Diagnosis(rows.by_row(size > 0.99 * self.bound), rows.by_row(state.swings >= ENOUGH))


def _track(F: Tensor, present: Tensor | None, old: FereroPIState) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """How often each loss was seen, its latest value, its size: running, the largest, of longer ago; all (..., m)."""
    seen = old.seen + (1 if present is None else present)
    latest = F if present is None else torch.where(present, F, old.latest)
    size = latest.abs()
    news = 1 if present is None else present
    magnitude = torch.lerp(old.magnitude, size, news / seen.clamp(min=1, max=windows.MEMORY))
    past = torch.lerp(old.past, size, news / seen.clamp(min=1, max=_AGE * windows.MEMORY))
    reference = torch.maximum(old.reference, magnitude)
    return seen, latest, magnitude, reference, past


def _known(reference: Tensor) -> Tensor:
    """The largest sizes, (..., m); one that is not known (yet) counts as the mean one."""
    is_known = reference > 0
    usual = reference.sum(dim=-1, keepdim=True) / is_known.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.where(is_known, reference, usual + (usual == 0))


def _objective_part(A: Tensor, largest: Tensor) -> Tensor:
    """lam_f (..., k): the mean of the rows, each over its largest size."""
    size = (A.abs() @ largest[..., None])[..., 0]
    share = (size > 0) / (size + (size == 0))
    return share / (size > 0).sum(dim=-1, keepdim=True)


def _price(metric: Metric, arrived: Tensor, magnitude: Tensor, largest: Tensor) -> Tensor:
    """Omega (..., c), how far the losses of each channel have come down; 1 where they have not, or stand at 0.

    It stops falling where the sizes s are too small for the constraint: ``q = b^T (B S^2 B^T)^-1 b`` is the smallest
    ``|F / s|^2`` with ``B F + b = 0``, so with n losses all their sizes have to grow by ``sqrt(q / n)``. From D it is
    ``q = z / (1 - z)``, ``z = b^T D^-1 b``. An inequality that holds where all losses are 0 has no such size.
    """
    shares, levels = metric.rows.shares, metric.rows.levels
    price = (shares @ (magnitude / largest)[..., None])[..., 0]
    if levels is not None:
        z = metric.squares((levels * arrived)[..., None, :])[..., 0, :]
        z = z.clamp(min=0, max=1 - torch.finfo(z.dtype).eps)
        price = (price * (shares.amax(dim=-1) * z / (1 - z)).clamp(min=1).sqrt()).clamp(max=1)
    return price + (price == 0)


def _arrivals(rows: Rows, present: Tensor | None, fresh: Tensor) -> tuple[Tensor, Tensor]:
    """What has arrived since each row's last update (..., r, m), and the rows that are complete now (..., r)."""
    if present is None:
        return torch.zeros_like(fresh), rows.is_real
    fresh = torch.maximum(fresh, present[..., None, :].to(fresh))
    complete = (fresh >= rows.names).all(dim=-1) & rows.is_real
    return fresh * ~complete[..., None], complete


def _standard_error(noise: Tensor, rate: Tensor | float, metric: Metric) -> Tensor:
    """That of each row's running mean with this rate (the reciprocal of its window), (..., r)."""
    variance = metric.rows.by_row(noise * rate / (2 - rate))
    return (variance * metric.D.diagonal(dim1=-2, dim2=-1)).sqrt()


def _relief(level: Tensor, noise: Tensor, window: Tensor, integral: Tensor, metric: Metric, price: Tensor) -> Tensor:
    """What makes an inequality let go once it is met for sure: slack beyond two standard errors, times its integral."""
    slack = level + 2 * _standard_error(noise, torch.exp2(-window.to(noise)), metric)
    grip = metric.rows.by_row(metric.sizes(integral) / price)
    return _LETTING_GO * grip * slack.clamp(max=0) * metric.rows.is_inequality


def _rest(weights: Tensor, objective: Tensor, magnitude: Tensor, past: Tensor, rows: Rows) -> Tensor:
    """1 where the losses of the equalities that are weighted down are at rest, 0 where they still fall, (..., 1)."""
    share = rows.shares[..., -1, :]  # the same for all losses of the equalities, and 0 for others
    down = weights.clamp(min=0) * share
    size = (torch.maximum(down, objective.abs() * share) * past).sum(dim=-1, keepdim=True)
    fall = (down * (past - magnitude)).sum(dim=-1, keepdim=True) / (size + (size == 0))
    return (1 - fall / _FALLING).clamp(min=0, max=1)


def _overshoot(level: Tensor, noise: Tensor, window: Tensor, integral: Tensor, metric: Metric) -> Tensor:
    """How far beyond the equalities their integral has pushed, relative, less two standard errors, (..., 1)."""
    integral = _of_equalities(integral, metric.rows)
    size = metric.sizes(integral)[..., -1:]
    rate = torch.exp2(-window[..., -1:].to(noise))
    error = (noise[..., -1:] * rate / (2 - rate)).sqrt()
    return (-(integral * level).sum(dim=-1, keepdim=True) / (size + (size == 0)) - 2 * error).clamp(min=0)


def _of_equalities(multipliers: Tensor, rows: Rows) -> Tensor:
    """The multipliers (..., r), with 0 for inequalities."""
    return torch.where(rows.is_inequality, 0.0, multipliers) if rows.m_g else multipliers


def _spare(integral: Tensor, before: Tensor, objective: Tensor, rest: Tensor, grip: Tensor, rows: Rows) -> Tensor:
    """The integral of the equalities, shortened where it alone would make the weight of a minimised loss negative.

    Its excess is how often it outweighs the objective part of such a loss, less 1. It grows only as far as the losses
    are at rest, and is let go where the equalities are overshot.
    """
    parts = _of_equalities(torch.stack([integral, before], dim=-2), rows) @ rows.B
    is_minimised = objective > 0
    objective = torch.where(is_minimised, objective, 1.0)[..., None, :]
    excess = (torch.where(is_minimised[..., None, :], -parts / objective, 0.0).amax(dim=-1) - 1).clamp(min=0)
    wanted, had = excess[..., :1], excess[..., 1:]
    kept = torch.minimum(wanted, torch.lerp(had, torch.maximum(wanted, had), rest)) * grip
    shortened = integral * ((1 + kept) / (1 + wanted))
    return torch.where(rows.is_inequality, integral, shortened) if rows.m_g else shortened


def _clip(multipliers: Tensor, metric: Metric, price: Tensor, bound: float) -> Tensor:
    """Inequalities into [0, rho], equalities into a ball of radius rho, in units of ``Omega / sqrt(D)``."""
    rows = metric.rows
    signed = torch.where(rows.is_inequality, multipliers.clamp(min=0), multipliers) if rows.m_g else multipliers
    size = metric.sizes(signed) / price
    return signed * rows.by_row(bound / size.clamp(min=bound))
