"""Problems in a box: ZDT, DTLZ, and classics that are unbounded or not defined outside theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sympy import Mul, cos, exp, pi, sin, sqrt

from ferero_lab.bench.solver.smooth import Collection, Formulas

__all__ = ["BOXED"]

X = Sequence[Any]

_ZDT = "Zitzler, Deb and Thiele 2000"
_DTLZ = "Deb, Thiele, Laumanns and Zitzler 2005"
_HUBAND = "Huband, Hingston, Barone and While 2006"

_found = Collection("box")


def _zdt1(x: X) -> list[Any]:
    g = 1 + 9 * sum(x[1:]) / (len(x) - 1)
    return [x[0], g - sqrt(x[0] * g)]


def _zdt2(x: X) -> list[Any]:
    g = 1 + 9 * sum(x[1:]) / (len(x) - 1)
    return [x[0], g - x[0] ** 2 / g]


def _zdt3(x: X) -> list[Any]:
    g = 1 + 9 * sum(x[1:]) / (len(x) - 1)
    return [x[0], g - sqrt(x[0] * g) - x[0] * sin(10 * pi * x[0])]


def _zdt4(x: X) -> list[Any]:
    g = 1 + 10 * (len(x) - 1) + sum(xi**2 - 10 * cos(4 * pi * xi) for xi in x[1:])
    return [x[0], g - sqrt(x[0] * g)]


def _zdt6(x: X) -> list[Any]:
    f1 = 1 - exp(-4 * x[0]) * sin(6 * pi * x[0]) ** 6
    g = 1 + 9 * (sum(x[1:]) / (len(x) - 1)) ** 0.25
    return [f1, g - f1**2 / g]


def _on_sphere(angles: X, radius: Any) -> list[Any]:
    """The radius times the point of the unit sphere that the angles turn to, in the order of the DTLZ paper."""
    m = len(angles) + 1
    return [
        radius * Mul(*(cos(a) for a in angles[: m - 1 - i])) * (sin(angles[m - 1 - i]) if i else 1) for i in range(m)
    ]


def _many_valleys(x: X) -> Any:
    return 100 * (len(x) + sum((xi - 0.5) ** 2 - cos(20 * pi * (xi - 0.5)) for xi in x))


def _dtlz1(x: X) -> list[Any]:
    size = (1 + _many_valleys(x[2:])) / 2
    return [size * x[0] * x[1], size * x[0] * (1 - x[1]), size * (1 - x[0])]


def _dtlz2(m: int, power: float = 1.0, valleys: bool = False) -> Formulas:
    """DTLZ2; DTLZ4 with a power of the angles' variables, DTLZ3 with many valleys."""

    def losses(x: X) -> list[Any]:
        rest = x[m - 1 :]
        g = _many_valleys(rest) if valleys else sum((xi - 0.5) ** 2 for xi in rest)
        return _on_sphere([xi**power * pi / 2 if power != 1.0 else xi * pi / 2 for xi in x[: m - 1]], 1 + g)

    return losses


def _dtlz7(x: X) -> list[Any]:
    g = 1 + 9 * sum(x[2:]) / (len(x) - 2)
    return [x[0], x[1], (1 + g) * (3 - sum(f / (1 + g) * (1 + sin(3 * pi * f)) for f in x[:2]))]


def _bk1(x: X) -> list[Any]:
    a, b = x
    return [a**2 + b**2, (a - 5) ** 2 + (b - 5) ** 2]


def _vu2(x: X) -> list[Any]:
    a, b = x
    return [a + b + 1, a**2 + 2 * b - 1]


def _im1(x: X) -> list[Any]:
    a, b = x
    return [2 * sqrt(a), a * (1 - b) + 5]


def _dgo2(x: X) -> list[Any]:
    return [x[0] ** 2, 9 - sqrt(81 - x[0] ** 2)]


def _kw2(x: X) -> list[Any]:
    a, b = x
    middle = 10 * exp(-(a**2) - b**2)
    f1 = -3 * (1 - a) ** 2 * exp(-(a**2) - (b + 1) ** 2) + middle * (a / 5 - a**3 - b**5)
    f2 = -3 * (1 + b) ** 2 * exp(-(b**2) - (1 - a) ** 2) + middle * (-b / 5 + b**3 + a**5)
    return [f1 + 3 * exp(-((a + 2) ** 2) - b**2) - a - b / 2, f2 + 3 * exp(-((2 - b) ** 2) - a**2)]


def _mlf1(x: X) -> list[Any]:
    return [(1 + x[0] / 20) * sin(x[0]), (1 + x[0] / 20) * cos(x[0])]


def _mmr1(x: X) -> list[Any]:
    a, b = x
    valleys = 2 - 0.8 * exp(-(((b - 0.6) / 0.4) ** 2)) - exp(-(((b - 0.2) / 0.04) ** 2))
    return [1 + a**2, valleys / (1 + a**2)]


def _tkly1(x: X) -> list[Any]:
    valleys = (2 - exp(-(((xi - 0.1) / 0.004) ** 2)) - 0.8 * exp(-(((xi - 0.9) / 0.4) ** 2)) for xi in x[1:])
    return [x[0], Mul(*valleys) / x[0]]


def _ltdz(x: X) -> list[Any]:
    a, b, c = x
    return [
        3 - (1 + c) * cos(a * pi / 2) * cos(b * pi / 2),
        3 - (1 + c) * cos(a * pi / 2) * sin(b * pi / 2),
        3 - (1 + c) * sin(a * pi / 2),
    ]


def _lov2(x: X) -> list[Any]:
    a, b = x
    return [b, -(b - a**3) / (a + 1)]


def _lov3(x: X) -> list[Any]:
    a, b = x
    return [a**2 + b**2, (a - 6) ** 2 - (b + 0.3) ** 2]


def _sd(x: X) -> list[Any]:
    a, b, c, d = x
    root = sqrt(2)
    return [2 * a + root * (b + c) + d, 2 / a + 2 * root / b + 2 * root / c + 2 / d]


def _comet(x: X) -> list[Any]:
    a, b, c = x
    g = 1 + c
    return [
        g * (a**3 * b**2 - 10 * a - 4 * b),
        g * (a**3 * b**2 - 10 * a + 4 * b),
        3 * g * a**2,
    ]


def _scaled(units: Sequence[float]) -> Formulas:
    """Quadratics whose minima lie outside the box in half of the variables."""

    def losses(x: X) -> list[Any]:
        inner = [xi / unit for xi, unit in zip(x, units, strict=True)]
        f1 = sum((y + (0.5 if i % 2 else -0.2)) ** 2 for i, y in enumerate(inner))
        f2 = sum((i + 1) * (y - (1.5 if i % 3 else 0.7)) ** 2 for i, y in enumerate(inner))
        return [f1, f2]

    return losses


_found.add("ZDT1", 0, 1, _zdt1, _ZDT, n=30)
_found.add("ZDT2", 0, 1, _zdt2, _ZDT, n=30)
_found.add("ZDT3", 0, 1, _zdt3, _ZDT, n=10)
_found.add("ZDT4", [0] + [-5] * 3, [1] + [5] * 3, _zdt4, _ZDT, known=[np.nan, 0, 0, 0])
_found.add("ZDT6", 0, 1, _zdt6, _ZDT, n=5)
_found.add("DTLZ1", 0, 1, _dtlz1, _DTLZ, n=4, group="valleys", known=[np.nan, np.nan, 0.5, 0.5])
_found.add("DTLZ2, m = 3", 0, 1, _dtlz2(3), _DTLZ, n=12, group="DTLZ2")
_found.add("DTLZ2, m = 5", 0, 1, _dtlz2(5), _DTLZ, n=8, group="DTLZ2")
_found.add("DTLZ3", 0, 1, _dtlz2(3, valleys=True), _DTLZ, n=4, group="valleys", known=[np.nan, np.nan, 0.5, 0.5])
_found.add("DTLZ4", 0, 1, _dtlz2(3, power=5.0), f"{_DTLZ}, with the power 5", n=7)
_found.add("DTLZ7", 0, 1, _dtlz7, _DTLZ, n=8)
_found.add("BK1", -5, 10, _bk1, "Binh and Korn 1997", n=2)
_found.add("VU2", -3, 3, _vu2, "Valenzuela-Rendón and Uresti-Charre 1997", n=2)
_found.add("IM1", [1, 1], [4, 2], _im1, "Ishibuchi and Murata 1998")
_found.add("DGO2", -8.9, 8.9, _dgo2, _HUBAND, n=1)
_found.add("KW2", -3, 3, _kw2, "Kim and de Weck 2005", n=2)
_found.add("MLF1", 0, 20, _mlf1, _HUBAND, n=1)
_found.add("MMR1", [0.1, 0], [1, 1], _mmr1, "Miglierina, Molho and Recchioni 2008")
_found.add("TKLY1", [0.1, 0, 0, 0], 1, _tkly1, _HUBAND, known=[np.nan, 0.1, 0.1, 0.1])
_found.add("LTDZ", 0, 1, _ltdz, "Laumanns, Thiele, Deb and Zitzler 2002", n=3)
_found.add("Lov2", -0.75, 0.75, _lov2, "Lovison 2011", n=2)
_found.add("Lov3", -20, 20, _lov3, "Lovison 2011", n=2)
_found.add("SD", [1, 2**0.5, 2**0.5, 1], 3, _sd, "Stadler and Dauer 1993", group="truss")
_found.add("Comet", [1, -2, 0], [3.5, 2, 1], _comet, "Deb, Thiele, Laumanns and Zitzler 2005")
_OWN = "ours: a common difficulty, not a published problem"
_units = [1e-2, 1.0, 1e2, 1e1, 1e-1, 1.0]
_found.add("boxed, units of x 1e4", [-u for u in _units], _units, _scaled(_units), _OWN)
_found.add("boxed, n = 20", -1, 1, _scaled([1.0] * 20), _OWN, n=20)

BOXED = tuple(_found.problems)
"""All of them."""
