"""The single loop in the entropic geometry: multipliers as exponentials of logits that the relative violations move."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ferero.errors import InputError
from ferero.methods._method import Decision, Diagnosis, Observation, check_observation, in_dtype_of
from ferero.methods._rows import Rows, Sparse, rows_of
from ferero.preference import Preference

__all__ = ["FereroPI", "FereroPIState"]

_FIRST = 3  # values whose median counts as one: a single one may be an outlier
_SMALLEST_RATE = 1 / 128  # of the smoothing
_NOISE_MEMORY = 50.0  # steps over which the variance of surprises is averaged
_SWING = 30.0  # steps within which a level that rises and falls again has swung
_SWING_MEMORY = 150.0  # steps over which the squares of such rises are averaged
_MARGIN_WINDOW = 32.0  # values whose standard error a margin counts in
_MOST_ROOM = 0.5  # of the larger side; also the largest rise that counts, since a batch may be off
_FALLS = 0.98  # a violation below this share of what it was is on its way
_VISIBLE = 0.01  # relative violation below which there is no hurry
_HURRY = 10.0  # the most that patience multiplies the integral gain by
_EVEN = 2.0  # what multiplies that of equalities, which have no side to be let go on
_LOWEST, _HIGHEST = -10.0, 14.0  # of the logits' integral part
_PUSH_UP = math.exp(-8)  # a loss's weight turns negative once it has fallen to a factor of about sqrt(this)
_ALL = 0.99  # share of the weights from which on there is nothing left to give
_RANGE = 230.0  # logarithms of losses are kept within, 1e-100 to 1e100
_LARGEST_WEIGHT = 1e30  # finite in single precision
_RIDGE = 1e-10  # relative; lets equalities that repeat each other share one multiplier


@dataclass(frozen=True, eq=False)
class FereroPIState:
    """What the controller remembers of m losses, k rows of the order, r rows of constraints and c channels.

    A channel is an inequality, or a loss that equalities name; see `FereroPI`.

    Attributes:
        seen: How often each loss has arrived, (..., m).
        latest: The last value of each, (..., m).
        arrived: The step at which each loss arrived last, (..., m).
        updated: The step at which each row was updated last, (..., r): it waits until all its losses arrived later.
        updates: How often each row of the order and each channel was updated, (..., k + c).
        sizes: Logarithms of their running sizes, (..., k + c).
        units: The largest of these so far, (..., k + c).
        before: Logarithms of their last values, (..., k + c), and
        earlier: of those before these, (..., k + c).
        level: Smoothed relative violations, (..., c).
        surprise: What the level failed to predict at the last value, (..., c).
        variance: Running mean of its square, (..., c).
        rate: Logarithm of the smoothing rate, (..., c).
        usual: Running mean of the level, (..., c), and
        rises: of the square of how far it lies above that mean, (..., c).
        anchor: The level from which on patience is counted, (..., c).
        age: Steps since the violation last changed sides or fell by a fiftieth, (..., c).
        logits: The integral parts of the logits, (..., c).
        weights: The last weights, (..., m).
    """

    seen: Tensor
    latest: Tensor
    arrived: Tensor
    updated: Tensor
    updates: Tensor
    sizes: Tensor
    units: Tensor
    before: Tensor
    earlier: Tensor
    level: Tensor
    surprise: Tensor
    variance: Tensor
    rate: Tensor
    usual: Tensor
    rises: Tensor
    anchor: Tensor
    age: Tensor
    logits: Tensor
    weights: Tensor

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
    """FERERO's single loop on loss values alone: a logit for every constraint, moved by its relative violation.

    For an inequality ``P <= N``, its positive terms on one side and its negative ones on the other:

        e   = (P - N) / q                  q the running size of the larger side; e is kept within [-1, 1]
        l  <- l + a (e - l)                the smoothing rate a grows while successive surprises agree
        v   = l + headroom * s             s the root mean square of how far l rises above its own running mean
        u  <- u + k_I h (v + e - l)        v within [-near, near]; h = 1, release where v < 0; grows while v stays
        lam = exp(u + k_P v) / q*          k_P from steady, under noise, to proportional, where values are exact
        w   = w_o / s* + B^T lam           w_o the objective; q* and s* are units: the largest sizes so far

    times one common factor: the weights of the objective part are those of plain training, or smaller where all weights
    together would exceed those of the plain sum. The q* of several bounds are their geometric mean, shared out in
    the proportions of the bounds. A loss that equalities name has a channel of its own, e its
    relative displacement from the set where the equalities hold, ``S B^T (B S^2 B^T)^-1 H``, v = e and h = 2. Where
    every loss is minimised its logit multiplies its weight, ``w_i exp(u_i + k_P e_i)``: a ray is met by positive
    weights, and one turns negative only after it has vanished. Where an expression is minimised,
    ``sinh(u_i + k_P e_i)`` is a multiplier of any sign.

    Nothing depends on the units of the losses, on their order, or on the basis chosen for the equalities, except for
    the common factor. docs/steering.md derives the law from Algorithm 2 of the paper, by mirror ascent with realised
    slopes, says for which step sizes it is stable, and what of the paper's guarantees is left.

    Cost: that of the weighted sum. Understands every preference. Choose it in training; for smooth deterministic
    problems `Ferero` in `minimize` is faster and exact.

    Args:
        proportional: k_P where values carry no noise. Concave fronts need up to 4.
        steady: k_P where values are nothing but noise.
        integral: k_I, a step of the logit for a relative violation of 1.
        release: How much more slowly a constraint that holds is let go, which leaves a margin under noise.
        headroom: How many times its own swings a level stays below the bound. Noise of the batches, which the smoothing
            takes out, is no swing.
        patience: Steps after which a violation that does not fall is pursued faster, and a constraint that holds and
            still outweighs the objective is let go faster.
        near: The largest level that moves the logit; one that is larger only says that it is far.
        adaptation: By how much a full agreement of successive surprises moves the logarithm of a.
        memory: Steps over which the sizes of the sides are averaged.

    Example:
        >>> method, preference = FereroPI(), Preference.ray([1.0, 1.0])
        >>> decision, state = method.update(preference, Observation([2.0, 1.0]), method.init(preference))
        >>> decision.weights.tolist()[0] > decision.weights.tolist()[1]  # the loss that is too large counts more
        True
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses"})
    has_merit: ClassVar[bool] = False

    proportional: float = 5.0
    steady: float = 1.0
    integral: float = 0.03
    release: float = 0.3
    headroom: float = 3.0
    patience: float = 50.0
    near: float = 0.2
    adaptation: float = 0.1
    memory: float = 100.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            may_be_0 = field.name == "headroom"
            if not (0 < value < math.inf or (may_be_0 and value == 0)):
                kind = "a finite number from 0 on" if may_be_0 else "a positive finite number"
                raise InputError(f"{field.name}: expected {kind}, found {value!r}.")

    def understands(self, preference: Preference) -> str | None:  # noqa: ARG002  # part of the protocol
        """None: it takes every preference."""
        return None

    def init(self, preference: Preference) -> FereroPIState:
        """Nothing seen, every logit 0."""
        m, k = preference.m, preference.A.shape[-2]
        c = preference.m_g + (m if preference.m_h else 0)
        r = rows_of(preference, preference.A.device, preference.A.dtype).count

        def of(*shape: int) -> Tensor:
            return preference.A.new_zeros(*preference.batch_shape, *shape)

        sized = dict.fromkeys(("seen", "latest", "arrived", "weights"), m) | {"updated": r}
        sized |= dict.fromkeys(("updates", "sizes", "units", "before", "earlier"), k + c)
        return FereroPIState(**{field.name: of(sized.get(field.name, c)) for field in fields(FereroPIState)})

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
        losses, present = observation.losses.detach(), observation.present
        dtype = torch.float32 if losses.device.type == "mps" else torch.float64
        old = state.like(losses, dtype)
        wanted = _wanted(preference, losses.device, dtype)
        values = losses.to(dtype).clamp(-math.exp(_RANGE), math.exp(_RANGE))
        latest = values if present is None else torch.where(present, values, old.latest)
        seen = old.seen + (1 if present is None else present)
        last, updated, complete = _arrivals(wanted.rows, present, old)
        arrived = wanted.arrived(seen, present, complete)
        updates = old.updates + arrived
        now, violations, sized = self._look(wanted, latest, old, complete, arrived, updates)
        moved, logits = self._move(wanted, violations, old, arrived, updates)
        weights, multipliers = _weigh(wanted, now, _guessed(_alike(wanted, sized.units, updates), updates), logits)
        if present is not None:
            weights = torch.where(present | (old.seen == 0), weights, old.weights)
        new = replace(
            moved, seen=seen, latest=latest, arrived=last, updated=updated, updates=updates, weights=weights,
            **sized._asdict(),
        )  # fmt: skip
        return Decision(in_dtype_of(weights, losses), multipliers), new

    def diagnose(self, preference: Preference, state: FereroPIState) -> Diagnosis:
        """Which constraints are violated although they have all the weight there is, one of them not getting nearer."""
        wanted = _wanted(preference, state.logits.device, state.logits.dtype)
        is_stuck = state.age >= self.patience
        logits = state.logits + self._gain(state.rate) * self._aimed(
            wanted, state.level, state.rises, state.variance, state.rate
        )
        m_g = wanted.rows.m_g
        lam = logits[..., :m_g].exp() * wanted.rows.real[..., :m_g]
        violated = (state.level[..., :m_g] > 0) & wanted.rows.is_real[..., :m_g]
        share = (lam * violated).sum(dim=-1, keepdim=True) / (1 + lam.sum(dim=-1, keepdim=True))
        some_stuck = (violated & is_stuck[..., :m_g]).any(dim=-1, keepdim=True)
        found = [violated & some_stuck & (share >= _ALL)]
        if wanted.equalities is not None:
            own, named = logits[..., m_g:], wanted.equalities.named > 0
            stuck = is_stuck[..., m_g:] & named
            highest = own.masked_fill(~named, -math.inf).amax(dim=-1, keepdim=True)
            is_low = own - highest < math.log(1 - _ALL)
            weight = torch.where(named, own, 0.0).exp()
            over = stuck & (state.level[..., m_g:] > 0) & (own > -math.log(1 - _ALL))
            is_all = (weight * over).sum(dim=-1, keepdim=True) >= _ALL * weight.sum(dim=-1, keepdim=True)
            is_full = torch.where(wanted.multiplies, is_low | (over & is_all), own.sinh().abs() > 1 / (1 - _ALL))
            stuck = is_full & stuck
            found.append(wanted.equalities.B.name_any(stuck))
        return Diagnosis(torch.cat(found, dim=-1))

    def _look(
        self, wanted: _Wanted, latest: Tensor, old: FereroPIState, complete: Tensor, arrived: Tensor, updates: Tensor
    ) -> tuple[_Now, Tensor, _Sized]:
        """What the equalities ask for now, the channels' relative violations, and all sizes."""
        rows, m_g, k = wanted.rows, wanted.rows.m_g, wanted.rows.k
        b = rows.b[..., :m_g]
        above, below = rows.B.sides(latest)[..., :m_g]
        positive = above + b.clamp(min=0)
        negative = b.clamp(max=0).abs() - below
        side = torch.maximum(positive, negative)
        parts = [rows.A.times(latest), side] + ([] if wanted.equalities is None else [latest])
        value = _log(torch.cat(parts, dim=-1))
        low, high = torch.minimum(old.before, old.earlier), torch.maximum(old.before, old.earlier)
        middle = torch.where(updates < _FIRST, value, value.clamp(low, high))
        share = arrived / (updates - _FIRST + 1).clamp(min=1, max=self.memory)
        sizes = torch.lerp(old.sizes, middle, share)
        violations = (positive - negative) / sizes[..., k : k + m_g].exp()
        if rows.margins is not None:
            error = (old.variance[..., :m_g] / (2 * _MARGIN_WINDOW - 1)).sqrt()
            violations = violations + rows.margins[..., :m_g] * error
        now, found = _Now(None, None), sizes
        if wanted.equalities is not None:
            own = sizes[..., k + m_g :].exp()
            now, displacement, wide = wanted.equalities.look(latest, own, complete[..., m_g:])
            violations = torch.cat([violations, displacement], dim=-1)
            found = torch.cat([sizes[..., : k + m_g], _log(wide)], dim=-1)
        is_new = arrived > 0
        known = torch.where(updates <= _FIRST, found, torch.maximum(old.units, found))
        before, earlier = torch.where(is_new, value, old.before), torch.where(is_new, old.before, old.earlier)
        return now, violations.clamp(-1, 1), _Sized(sizes, torch.where(is_new, known, old.units), before, earlier)

    def _move(
        self, wanted: _Wanted, e: Tensor, old: FereroPIState, arrived: Tensor, updates: Tensor
    ) -> tuple[FereroPIState, Tensor]:
        """Smooth the violations e (..., c), and move the logits of those that have arrived; all logits (..., c)."""
        k = wanted.rows.k
        arrived, updates = arrived[..., k:], updates[..., k:]
        surprise = torch.where(updates > 1, e - old.level, 0.0) * arrived
        share = arrived * (updates > 1) / (updates - 1).clamp(min=1, max=_NOISE_MEMORY)
        variance = torch.lerp(old.variance, surprise.square(), share)
        agreement = surprise * old.surprise / variance.clamp(min=torch.finfo(e.dtype).tiny)
        rate = (old.rate + self.adaptation * agreement.clamp(-1, 1)).clamp(math.log(_SMALLEST_RATE), 0.0)
        level = torch.where((updates == 1) & (arrived > 0), e, old.level + rate.exp() * surprise)

        usual = torch.lerp(old.usual, level, arrived / updates.clamp(min=1, max=_SWING))
        rise = (level - usual).clamp(0.0, _MOST_ROOM)
        rises = torch.lerp(old.rises, rise.square(), arrived / updates.clamp(min=1, max=_SWING_MEMORY))
        aimed = self._aimed(wanted, level, rises, variance, rate)

        size = aimed.abs()
        stays = (aimed * old.anchor > 0) & (size >= _FALLS * old.anchor.abs()) & (size >= _VISIBLE)
        age = torch.where(stays, old.age + arrived, 0.0)
        anchor = torch.where(stays, old.anchor, aimed)

        gain = self._gain(rate)
        speed = 1 - (1 - self.release) * (aimed < 0).to(e.dtype)  # of the logit, and of the clock that patience goes by
        hurries = (aimed > 0) | (old.logits + gain * aimed > 0)
        pace = speed * torch.where(hurries, (speed * age / self.patience).clamp(1.0, _HURRY), 1.0)
        seen_by_gain = aimed
        if wanted.is_inequality is not None:
            pace = torch.where(wanted.is_inequality, pace, _EVEN)
            seen_by_gain = torch.where(wanted.is_inequality, aimed, e)
        noise = e - level  # is not cut off, lest the mean be biased
        step = self.integral * pace * (aimed.clamp(-self.near, self.near) + noise)
        logits = (old.logits + step * arrived).clamp(_LOWEST, _HIGHEST)
        surprise = torch.where(arrived > 0, surprise, old.surprise)
        new = replace(
            old, level=level, surprise=surprise, variance=variance, rate=rate, usual=usual, rises=rises, anchor=anchor,
            age=age, logits=logits,
        )  # fmt: skip
        return new, logits + gain * seen_by_gain

    def _aimed(self, wanted: _Wanted, level: Tensor, rises: Tensor, variance: Tensor, rate: Tensor) -> Tensor:
        """v: the level of an inequality with the room that its swings take; that of an equality as it is.

        White noise that the smoothing leaves in the level, ``variance * a^2 / (2 (a + 1 / _SWING))`` in the square of
        its distance from its mean and half of that above the mean, is no swing.
        """
        a = rate.exp()
        of_noise = variance * a.square() / (4 * (a + 1 / _SWING))
        room = (self.headroom * (rises - of_noise).clamp(min=0).sqrt()).clamp(max=_MOST_ROOM)
        return level + (room if wanted.is_inequality is None else torch.where(wanted.is_inequality, room, 0.0))

    def _gain(self, rate: Tensor) -> Tensor:
        """k_P: between `steady` and `proportional` as the square root of the smoothing rate."""
        return self.steady + (self.proportional - self.steady) * (rate / 2).exp()


class _Sized(NamedTuple):
    """Sizes of the rows of the order and of the channels, (..., k + c) each, as in `FereroPIState`."""

    sizes: Tensor
    units: Tensor
    before: Tensor
    earlier: Tensor


class _Now(NamedTuple):
    """``(B S^2 B^T)^-1`` of the equalities, and S, (..., m); None without equalities."""

    inverse: _Inverse | None
    size: Tensor | None


class _Inverse(NamedTuple):
    """Of a matrix in which only some rows are coupled: 1 / diagonal, (..., m_h), and the inverse of the others' block.

    Attributes:
        apart: (..., m_h).
        coupled: (..., c, c); None where no rows are coupled.
    """

    apart: Tensor
    coupled: Tensor | None


@dataclass(frozen=True, eq=False)
class _Equalities:
    """The equalities ``B F + b = 0`` as one block, since their rows are only a basis of it.

    Attributes:
        B: (..., m_h, m).
        b: (..., m_h).
        named: 1 for the losses that they name, (..., m).
        coupled: Those of them that share a loss with another one, (c,).
        dense: All entries of their rows, (..., c, m).
    """

    B: Sparse
    b: Tensor
    named: Tensor
    coupled: Tensor
    dense: Tensor

    def look(self, F: Tensor, size: Tensor, complete: Tensor) -> tuple[_Now, Tensor, Tensor]:
        """The inverse of ``B S^2 B^T``, each loss's relative displacement ``S B^T (B S^2 B^T)^-1 H``, and S.

        S is the larger of a loss's running size and of what it would be where the equalities hold: a loss that
        vanishes although it should not has the size that it should have.

        Args:
            F: The losses, (..., m).
            size: Their running sizes, (..., m).
            complete: Rows that may be read, (..., m_h).
        """
        there = complete.to(F.dtype)
        H = (self.B.times(F) + self.b) * there
        usual = size * F.sign()
        H_usual = (self.B.times(usual) + self.b) * there
        inverse = self._inverse(size, there)
        target = usual - size.square() * self.spread(self._solve(inverse, H_usual))
        size = torch.maximum(size, target.abs().clamp(max=math.exp(_RANGE)))
        inverse = self._inverse(size, there)
        return _Now(inverse, size), size * self.spread(self._solve(inverse, H)), size

    def multipliers(self, now: _Now, weights: Tensor) -> Tensor:
        """The lam_h, (..., m_h), whose ``B^T lam_h`` is nearest to weights (..., m), in units of S."""
        assert now.inverse is not None  # for the type checker
        assert now.size is not None
        return self._solve(now.inverse, self.B.times(now.size.square() * weights))

    def _inverse(self, size: Tensor, there: Tensor) -> _Inverse:
        diagonal = self.B.times_squared(size)
        apart = there / torch.where(diagonal * there > 0, diagonal, 1.0)
        if len(self.coupled) == 0:
            return _Inverse(apart, None)
        scaled, there = self.dense * size[..., None, :], there[..., self.coupled]
        both = there[..., :, None] * there[..., None, :]
        D = (scaled @ scaled.mT) * both
        largest = D.diagonal(dim1=-2, dim2=-1).amax(dim=-1, keepdim=True)
        largest = torch.where(largest > 0, largest, 1.0)
        D = D / largest[..., None] + torch.diag_embed(1 - there)
        inverse = torch.linalg.inv_ex(D + _RIDGE * torch.eye(D.shape[-1], dtype=D.dtype, device=D.device)).inverse
        inverse = 2 * inverse - inverse @ D @ inverse  # a Newton step: what the ridge took, squared
        return _Inverse(apart, inverse / largest[..., None] * both)

    def _solve(self, inverse: _Inverse, H: Tensor) -> Tensor:
        found = inverse.apart * H
        if inverse.coupled is None:
            return found
        return found.index_copy(-1, self.coupled, (inverse.coupled @ H[..., self.coupled, None])[..., 0])

    def spread(self, multipliers: Tensor) -> Tensor:
        """``B^T lam``, (..., m)."""
        return self.B.combine(multipliers)


@dataclass(frozen=True, eq=False)
class _Wanted:
    """A preference as the law reads it.

    Attributes:
        rows: All constraints.
        equalities: The equalities as a block; None without any.
        multiplies: Whether logits of losses multiply weights (every row of the order is one loss), (..., 1), bool.
        is_inequality: Channels that have two different sides, (c,), bool; None where all have.
        ray: The losses' proportions on a ray from the origin, 1 elsewhere, (..., m), and
        is_ray: whether there is one, (..., 1), bool; None where nowhere.
        bound: Logarithms of the bounds of inequalities that have nothing else on that side, as in ``F <= b`` and
            ``F >= b``, (..., k + c), and
        has_bound: 1 for these, (..., k + c).
        scale: What the absolute weights of the objective part sum to, (..., 1).
        orders: Rows of A that are no padding, (..., k).
    """

    rows: Rows
    equalities: _Equalities | None
    multiplies: Tensor
    is_inequality: Tensor | None
    ray: Tensor
    is_ray: Tensor | None
    bound: Tensor
    has_bound: Tensor
    scale: Tensor
    orders: Tensor

    def arrived(self, seen: Tensor, present: Tensor | None, complete: Tensor) -> Tensor:
        """1 for rows of the order and channels with news, (..., k + c)."""
        rows, m_g = self.rows, self.rows.m_g
        batch = seen.shape[:-1]
        known, news = seen > 0, seen >= 0 if present is None else present
        objective = rows.A.name_any(news) & rows.A.name_only(known)
        parts = [objective.expand(*batch, -1), complete[..., :m_g].expand(*batch, -1)]
        if self.equalities is not None:
            parts.append(self.equalities.B.named_by_any(complete[..., m_g:]).expand(*batch, -1))
        return torch.cat(parts, dim=-1).to(seen.dtype)


def _weigh(wanted: _Wanted, now: _Now, units: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The weights (..., m) and the multipliers ``[lam_f; lam_g; lam_h]``, so that ``w = A^T lam_f + B^T lam``."""
    rows, m_g, k = wanted.rows, wanted.rows.m_g, wanted.rows.k
    sized = wanted.orders * (units[..., :k] > -_RANGE)  # a loss that has been 0 throughout has no size yet
    sized = torch.where(sized.sum(dim=-1, keepdim=True) > 0, sized, wanted.orders)
    lam_f = sized * (-units[..., :k]).exp() / sized.sum(dim=-1, keepdim=True)
    objective = rows.A.combine(lam_f)
    if wanted.is_ray is not None:
        objective = torch.where(wanted.is_ray, objective.new_ones(()) / wanted.ray, objective)

    lam_g = (logits[..., :m_g] - units[..., k : k + m_g]).exp() * rows.real[..., :m_g]
    lam_h = lam_g.new_zeros(*lam_g.shape[:-1], rows.count - m_g)
    weights = objective + rows.B.combine(torch.cat([lam_g, lam_h], dim=-1)) if m_g else objective
    least = torch.zeros_like(wanted.scale)
    if wanted.equalities is not None:
        named, unit = wanted.equalities.named, units[..., k + m_g :].exp()
        signed = logits[..., m_g:].sinh() * named / unit
        balanced = _balance(objective, logits[..., m_g:], named)
        lam_h = wanted.equalities.multipliers(now, torch.where(wanted.multiplies, balanced - objective, signed))
        added = wanted.equalities.spread(lam_h)
        weights = weights + torch.where(wanted.multiplies, balanced - objective, added)
        lam_f = torch.where(wanted.multiplies, rows.A.share_out(balanced - added), lam_f)
        passing = logits[..., m_g:].cosh() * named / unit  # one that passes 0 counts as its unit, lest the others jump
        least = torch.where(wanted.multiplies, 0.0, passing.sum(dim=-1, keepdim=True))
    plain, together = (w.abs().sum(dim=-1, keepdim=True) for w in (objective, weights))
    factor = wanted.scale / torch.maximum(plain, torch.maximum(together, least) / weights.shape[-1])
    everything = torch.cat([lam_f, lam_g, lam_h], dim=-1) * factor
    return _bounded(weights * factor), _bounded(everything)


def _alike(wanted: _Wanted, units: Tensor, updates: Tensor) -> Tensor:
    """Logarithms of units (..., k + c), those of bounds in the proportions of the bounds, with the same mean."""
    counts = wanted.has_bound * (updates > 0)
    over = ((units - wanted.bound) * counts).sum(dim=-1, keepdim=True) / counts.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.where(wanted.has_bound > 0, wanted.bound + over, units)


def _guessed(units: Tensor, updates: Tensor) -> Tensor:
    """Logarithms of units (..., k + c); those of what has not arrived yet are the mean of the others."""
    known = (updates > 0).to(units.dtype)
    mean = (units * known).sum(dim=-1, keepdim=True) / known.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.where(updates > 0, units, mean)


def _balance(weights: Tensor, logits: Tensor, named: Tensor) -> Tensor:
    """Weights (..., m) times the exponentials of the logits, less a trace by which one that vanished turns negative."""
    times = torch.where(named > 0, logits.exp() - _PUSH_UP * (-logits).exp(), 1.0)
    return weights * times / times.abs().mean(dim=-1, keepdim=True)


def _bounded(weights: Tensor) -> Tensor:
    return weights.clamp(-_LARGEST_WEIGHT, _LARGEST_WEIGHT)


def _arrivals(rows: Rows, present: Tensor | None, old: FereroPIState) -> tuple[Tensor, Tensor, Tensor]:
    """When each loss (..., m) arrived and each row (..., r) was updated last, and which rows are complete now."""
    now = old.arrived.amax(dim=-1, keepdim=True) + 1
    if present is None:
        return now.expand_as(old.arrived), now.expand_as(old.updated), rows.is_real
    last = torch.where(present, now, old.arrived)
    complete = (rows.B.least(last) > old.updated) & rows.is_real
    return last, torch.where(complete, now, old.updated), complete


def _log(values: Tensor) -> Tensor:
    """The logarithm of the sizes, within bounds that hold for 0 and inf."""
    return values.abs().log().clamp(-_RANGE, _RANGE)


@lru_cache(maxsize=256)
def _wanted(preference: Preference, device: torch.device, dtype: torch.dtype) -> _Wanted:
    """What the law reads of a preference; kept, since it is asked for at every step."""
    rows, p = rows_of(preference, device, dtype), preference.to(device, dtype)
    orders = (p.A != 0).any(dim=-1).to(dtype)
    members = preference.members or (preference,)
    per_member = [_multiplies(member) for member in members]
    multiplies = torch.tensor(per_member, device=device)[:, None] if preference.members else torch.tensor(
        per_member, device=device
    )  # fmt: skip
    equalities, is_inequality = None, None
    if p.m_h:
        named = (p.B_h != 0).any(dim=-2).to(dtype)
        B_h = Sparse.of(p.B_h)
        is_shared = (p.B_h != 0).sum(dim=-2) > 1
        coupled = torch.nonzero(B_h.name_any(is_shared).reshape(-1, p.m_h).any(dim=0))[:, 0]
        equalities = _Equalities(B_h, p.b_h, named, coupled, p.B_h.index_select(-2, coupled))
        is_inequality = torch.arange(p.m_g + p.m, device=device) < p.m_g
    rays = [_ray(member) for member in members]
    ray = torch.stack([torch.ones(p.m) if one is None else one for one in rays]).to(device, dtype)
    is_ray = torch.tensor([[one is not None] for one in rays], device=device)
    if not preference.members:
        ray, is_ray = ray[0], is_ray[0]
    scale = p.A.abs().sum(dim=(-2, -1)) / orders.sum(dim=-1)
    bound, has_bound = _bounds(p)
    return _Wanted(
        rows,
        equalities,
        multiplies,
        is_inequality,
        ray,
        is_ray if bool(is_ray.any()) else None,
        bound,
        has_bound,
        scale[..., None],
        orders,
    )


def _bounds(p: Preference) -> tuple[Tensor, Tensor]:
    """What stands alone on its side of an inequality, as a unit: `_Wanted.bound` and `_Wanted.has_bound`."""
    is_alone = ((p.B_g * p.b_g[..., None] <= 0).all(dim=-1) & (p.b_g != 0)).to(p.A.dtype)
    around = p.A.shape[-2], p.m if p.m_h else 0  # rows of the order, and channels of losses
    return pad(_log(p.b_g) * is_alone, around), pad(is_alone, around)


def _multiplies(preference: Preference) -> bool:
    """Whether every row of the order is a loss of its own, and every loss that an equality names is among them."""
    A = preference.A
    is_named = A != 0
    is_plain = bool((is_named.sum(dim=-1) == 1).all()) and bool((is_named.sum(dim=0) <= 1).all())
    is_plain = is_plain and bool((A >= 0).all()) and len(A) > 1
    minimised = (A != 0).any(dim=0)
    return is_plain and bool(minimised[(preference.B_h != 0).any(dim=0)].all())


def _ray(preference: Preference) -> Tensor | None:
    """The proportions that the equalities fix: their positive solution where they leave one direction, else None."""
    if preference.m_h < preference.m - 1 or preference.m_h == 0 or bool((preference.b_h != 0).any()):
        return None
    if not _multiplies(preference):
        return None
    B = preference.B_h.double().cpu()
    B = B[(B != 0).any(dim=1)]
    lengths = torch.linalg.vector_norm(B, dim=0)
    if not bool((lengths > 0).all()):
        return None
    B = B / lengths  # units do not change the rank, nor do the rows' lengths
    svd = torch.linalg.svd(B / torch.linalg.vector_norm(B, dim=1, keepdim=True), full_matrices=True)
    rank = int((1e-9 * svd.S.amax() < svd.S).sum())
    direction = svd.Vh[-1] * svd.Vh[-1].sum().sign() / lengths
    return direction if rank == preference.m - 1 and bool((direction > 0).all()) else None
