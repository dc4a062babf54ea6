"""Problems without bounds: the classics of the papers on multiobjective descent, and scaled quadratics.

Sources that are cited by a collection: Huband, Hingston, Barone and While 2006 (a review of test problems); Mita,
Fukuda and Yamashita 2019 (the set that papers on descent share); Moré, Garbow and Hillstrom 1981 (least squares, each
residual a loss).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sympy import Float, cos, exp, pi, sin, sqrt

from ferero_lab.bench.solver.smooth import Collection, Formulas

__all__ = ["UNBOUNDED"]

X = Sequence[Any]

_HUBAND = "Huband, Hingston, Barone and While 2006"
_MITA = "Mita, Fukuda and Yamashita 2019"
_MGH = "Moré, Garbow and Hillstrom 1981"

_found = Collection("unbounded")


def _squares(x: X, *centre: float) -> Any:
    at = centre if len(centre) == len(x) else centre * len(x)
    return sum((xi - c) ** 2 for xi, c in zip(x, at, strict=True))


def _jos1(x: X) -> list[Any]:
    return [_squares(x, 0) / len(x), _squares(x, 2) / len(x)]


def _slcdt2(x: X) -> list[Any]:
    centres = [[1] * len(x), [-1] * len(x), [(-1) ** j for j in range(len(x))]]
    return [
        sum((xj - c) ** (4 if i == j else 2) for j, (xj, c) in enumerate(zip(x, centre, strict=True)))
        for i, centre in enumerate(centres)
    ]


def _slcdt1(x: X) -> list[Any]:
    a, b = x
    both = sqrt(1 + (a + b) ** 2) + sqrt(1 + (a - b) ** 2)
    bump = Float(0.85) * exp(-((a - b) ** 2))
    return [(both + a - b) / 2 + bump, (both - a + b) / 2 + bump]


def _ff1(x: X) -> list[Any]:
    c = 1 / np.sqrt(len(x))
    return [1 - exp(-_squares(x, c)), 1 - exp(-_squares(x, -c))]


def _hil1(x: X) -> list[Any]:
    angle = 2 * pi / 360 * (45 + 40 * sin(2 * pi * x[0]) + 25 * sin(2 * pi * x[1]))
    radius = 1 + cos(2 * pi * x[0]) / 2
    return [cos(angle) * radius, sin(angle) * radius]


def _poloni(x: X) -> list[Any]:
    def first(a: Any, b: Any) -> Any:
        return sin(a) / 2 - 2 * cos(a) + sin(b) - 3 * cos(b) / 2

    def second(a: Any, b: Any) -> Any:
        return 3 * sin(a) / 2 - cos(a) + 2 * sin(b) - cos(b) / 2

    a, b = x
    one, two = Float(1), Float(2)
    f1 = 1 + (first(one, two) - first(a, b)) ** 2 + (second(one, two) - second(a, b)) ** 2
    return [f1, (a + 3) ** 2 + (b + 1) ** 2]


def _mop5(x: X) -> list[Any]:
    a, b = x
    square = a**2 + b**2
    return [
        square / 2 + sin(square),
        (3 * a - 2 * b + 4) ** 2 / 8 + (a - b + 1) ** 2 / 27 + 15,
        1 / (square + 1) - 1.1 * exp(-square),
    ]


def _mop7(x: X) -> list[Any]:
    a, b = x
    return [
        (a - 2) ** 2 / 2 + (b + 1) ** 2 / 13 + 3,
        (a + b - 3) ** 2 / 36 + (-a + b + 2) ** 2 / 8 - 17,
        (a + 2 * b - 1) ** 2 / 175 + (-a + 2 * b) ** 2 / 17 - 13,
    ]


def _vfm1(x: X) -> list[Any]:
    return [_squares(x, 0, 1), _squares(x, 0, -1) + 1, _squares(x, 1, 0) + 2]


def _vu1(x: X) -> list[Any]:
    a, b = x
    return [1 / (a**2 + b**2 + 1), a**2 + 3 * b**2 + 1]


def _sk1(x: X) -> list[Any]:
    (a,) = x
    return [a**4 + 3 * a**3 - 10 * a**2 - 10 * a - 10, a**4 / 2 - 2 * a**3 - 10 * a**2 + 10 * a - 5]


def _sk2(x: X) -> list[Any]:
    waves = sum(sin(xi) for xi in x)
    return [_squares(x, 2, -3, 5, 4) - 5, -waves / (1 + _squares(x, 0) / 100)]


def _far1(x: X) -> list[Any]:
    def bump(width: float, a: float, b: float) -> Any:
        return exp(-width * _squares(x, a, b))

    f1 = -2 * bump(15, 0.1, 0) - bump(20, 0.6, 0.6) + bump(20, -0.6, 0.6) + bump(20, 0.6, -0.6) + bump(20, -0.6, -0.6)
    f2 = 2 * bump(20, 0, 0) + bump(20, 0.4, 0.6) - bump(20, -0.5, 0.7) - bump(20, 0.5, -0.7) + bump(20, -0.4, -0.8)
    return [f1, f2]


def _lov1(x: X) -> list[Any]:
    a, b = x
    return [1.05 * a**2 + 0.98 * b**2, 0.99 * (a - 3) ** 2 + 1.03 * (b - 2.5) ** 2]


def _lov4(x: X) -> list[Any]:
    bumps = exp(-_squares(x, -2, 0)) + exp(-_squares(x, 2, 0))
    return [_squares(x, 0) + 4 * bumps, _squares(x, 6, -0.5)]


def _dgo1(x: X) -> list[Any]:
    return [sin(x[0]), sin(x[0] + 0.7)]


def _ikk1(x: X) -> list[Any]:
    a, b = x
    return [a**2, (a - 20) ** 2, b**2]


def _quartic(x: X) -> Any:
    return sum((i + 1) * (xi - i - 1) ** 4 for i, xi in enumerate(x))


def _ap1(x: X) -> list[Any]:
    a, b = x
    return [_quartic(x) / 4, exp((a + b) / 2) + _squares(x, 0), (exp(-a) + 2 * exp(-b)) / 6]


def _ap3(x: X) -> list[Any]:
    a, b = x
    return [_quartic(x) / 4, (b - a**2) ** 2 + (1 - a) ** 2]


def _ap4(x: X) -> list[Any]:
    a, b, c = x
    return [_quartic(x) / 9, exp((a + b + c) / 3) + _squares(x, 0), (3 * exp(-a) + 4 * exp(-b) + 3 * exp(-c)) / 12]


def _pnr(x: X) -> list[Any]:
    a, b = x
    return [a**4 + b**4 - a**2 + b**2 - 10 * a * b + a / 4 + 20, _squares(x, 1, 0)]


def _fds(x: X) -> list[Any]:
    n = len(x)
    third = sum((i + 1) * (n - i) * exp(-xi) for i, xi in enumerate(x))
    return [_quartic(x) / n**2, exp(sum(x) / n) + _squares(x, 0), third / (n * (n + 1))]


def _mhhm2(x: X) -> list[Any]:
    return [_squares(x, 0.8, 0.6), _squares(x, 0.85, 0.7), _squares(x, 0.9, 0.6)]


def _sp1(x: X) -> list[Any]:
    a, b = x
    return [(a - 1) ** 2 + (a - b) ** 2, (b - 3) ** 2 + (a - b) ** 2]


def _ssfyy2(x: X) -> list[Any]:
    (a,) = x
    return [10 + a**2 - 10 * cos(a * pi / 2), (a - 4) ** 2]


def _mlf2(x: X) -> list[Any]:
    def himmelblau(a: Any, b: Any) -> Any:
        return ((a**2 + b - 11) ** 2 + (a + b**2 - 7) ** 2) / 200 - 5

    a, b = x
    return [himmelblau(a, b), himmelblau(2 * a, 2 * b)]


def _mgh16(x: X) -> list[Any]:
    times = [0.2 * (i + 1) for i in range(5)]
    return [
        (x[0] + t * x[1] - float(np.exp(t))) ** 2 + (x[2] + x[3] * float(np.sin(t)) - float(np.cos(t))) ** 2
        for t in times
    ]


def _mgh26(x: X) -> list[Any]:
    total = len(x) - sum(cos(xi) for xi in x)
    return [(total + (i + 1) * (1 - cos(xi)) - sin(xi)) ** 2 for i, xi in enumerate(x)]


def _mgh33(x: X) -> list[Any]:
    total = sum((j + 1) * xj for j, xj in enumerate(x))
    return [((i + 1) * total - 1) ** 2 for i in range(3)]


def _toi4(x: X) -> list[Any]:
    a, b, c, d = x
    return [a**2 + b**2 + 1, ((a - b) ** 2 + (c - d) ** 2) / 2 + 1]


def _toi8(x: X) -> list[Any]:
    return [(2 * x[0] - 1) ** 2, *((i + 1) * (2 * x[i - 1] - x[i]) ** 2 for i in range(1, len(x)))]


def _toi10(x: X) -> list[Any]:
    return [100 * (x[i + 1] - x[i] ** 2) ** 2 + (x[i + 1] - 1) ** 2 for i in range(len(x) - 1)]


def _zlt1(x: X) -> list[Any]:
    return [(x[i] - 1) ** 2 + _squares([*x[:i], *x[i + 1 :]], 0) for i in range(3)]


def _scaled(units: Sequence[float], floor: float = 0.0, sizes: tuple[float, float] = (1.0, 1.0)) -> Formulas:
    """Two quadratics with minima at 0 and 1 in the variables' own units, which differ; a floor lies under both."""

    def losses(x: X) -> list[Any]:
        inner = [xi / unit for xi, unit in zip(x, units, strict=True)]
        f1 = sum((i + 1) * y**2 for i, y in enumerate(inner))
        f2 = sum((len(inner) - i) * (y - 1) ** 2 for i, y in enumerate(inner))
        return [sizes[0] * f1 + floor, sizes[1] * f2 + floor]

    return losses


_found.add("JOS1, n = 5", -5, 5, _jos1, "Jin, Olhofer and Sendhoff 2001", n=5, group="JOS1")
_found.add("JOS1, n = 50", -100, 100, _jos1, "Jin, Olhofer and Sendhoff 2001", n=50, group="JOS1")
_found.add("SLCDT1", -1.5, 1.5, _slcdt1, "Schütze, Laumanns, Coello, Dellnitz and Talbi 2008", n=2)
_found.add("SLCDT2", -1, 1, _slcdt2, "Schütze, Laumanns, Coello, Dellnitz and Talbi 2008", n=10)
_found.add("FF1, n = 2", -1, 1, _ff1, "Fonseca and Fleming 1995", n=2, group="FF1")
_found.add("FF1, n = 10", -0.6, 0.6, _ff1, "Fonseca and Fleming 1995", n=10, group="FF1")
_found.add("Hil1", 0, 1, _hil1, "Hillermeier 2001", n=2)
_found.add("MOP3", -np.pi, np.pi, _poloni, "Poloni 1997", n=2)
_found.add("MOP5", -1, 1, _mop5, "Viennet, Fonteix and Marc 1996", n=2)
_found.add("MOP7", -40, 40, _mop7, "Viennet, Fonteix and Marc 1996", n=2)
_found.add("VFM1", -2, 2, _vfm1, "Viennet, Fonteix and Marc 1996", n=2)
_found.add("VU1", -3, 3, _vu1, "Valenzuela-Rendón and Uresti-Charre 1997", n=2)
_found.add("SK1", -10, 10, _sk1, "Socha and Kisiel-Dorohinicki 2002", n=1)
_found.add("SK2", -10, 10, _sk2, "Socha and Kisiel-Dorohinicki 2002", n=4)
_found.add("Far1", -1, 1, _far1, "Farhang-Mehr and Azarm 2002", n=2)
_found.add("Lov1", -10, 10, _lov1, "Lovison 2011", n=2)
_found.add("Lov4", -20, 20, _lov4, "Lovison 2011", n=2)
_found.add("DGO1", -10, 13, _dgo1, _HUBAND, n=1)
_found.add("IKK1", -50, 50, _ikk1, _HUBAND, n=2)
_found.add("AP1", -10, 10, _ap1, "Ansary and Panda 2014", n=2)
_found.add("AP3", -10, 10, _ap3, "Ansary and Panda 2014", n=2)
_found.add("AP4", -10, 10, _ap4, "Ansary and Panda 2014", n=3)
_found.add("PNR", -2, 2, _pnr, "Preuss, Naujoks and Rudolph 2006", n=2)
_found.add("FDS, n = 5", -2, 2, _fds, "Fliege, Graña Drummond and Svaiter 2009", n=5, group="FDS")
_found.add("FDS, n = 20", -2, 2, _fds, "Fliege, Graña Drummond and Svaiter 2009", n=20, group="FDS")
_found.add("MHHM2", 0, 1, _mhhm2, _HUBAND, n=2)
_found.add("SP1", -100, 100, _sp1, _HUBAND, n=2)
_found.add("SSFYY2", -10, 10, _ssfyy2, _HUBAND, n=1)
_found.add("MLF2", -4, 4, _mlf2, _HUBAND, n=2)
_found.add("MGH16", [-25, -5, -5, -1], [25, 5, 5, 1], _mgh16, _MGH)
_found.add("MGH26", -1, 1, _mgh26, _MGH, n=4)
_found.add("MGH33", -1, 1, _mgh33, _MGH, n=10)
_found.add("Toi4", -2, 5, _toi4, f"Toint 1983; {_MITA}", n=4)
_found.add("Toi8", -1, 1, _toi8, f"Toint 1983; {_MITA}", n=3)
_found.add("Toi10", -2, 2, _toi10, f"Toint 1983; {_MITA}", n=4)
_found.add("ZLT1", -5, 5, _zlt1, f"Zitzler, Laumanns and Thiele 2001; {_MITA}", n=10)

_OWN = "ours: a common difficulty, not a published problem"
_units = [1e-2, 1.0, 1e2, 1e1, 1e-1, 1.0]
_found.add("units of x, 1e4", [-3 * u for u in _units], [3 * u for u in _units], _scaled(_units), _OWN)
_units = [1.0, 1e4, 1.0, 1e4]
_found.add("units of x, two of 1e4", [-3 * u for u in _units], [3 * u for u in _units], _scaled(_units), _OWN)
_found.add("floor of 1e4", -3, 3, _scaled([1.0] * 5, 1e4), _OWN, n=5)
_found.add("floor of 1e3, units 1e3", -3, 3, _scaled([1.0] * 5, 1e3, (1e3, 1.0)), _OWN, n=5)

UNBOUNDED = tuple(_found.problems)
"""All of them."""
