"""Engineering design: the RE and CRE suites without integers (Tanabe and Ishibuchi 2020), and textbook constraints.

CRE problems have their constraints as constraints. RE problems have the sum of their violations as a further loss,
whose kinks no smooth solver is made for; three are here as published, since people do try them. Integers are relaxed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sympy import atan2, cos, exp, sqrt

from ferero_lab.bench.solver.smooth import Collection, violation

__all__ = ["ENGINEERING"]

X = Sequence[Any]

_SUITE = "Tanabe and Ishibuchi 2020"

_found = Collection("engineering")


def _four_bars(x: X) -> list[Any]:
    a, b, c, d = x
    root = float(np.sqrt(2))
    volume = 200 * (2 * a + root * b + sqrt(c) + d)
    return [volume, 0.01 * (2 / a + 2 * root / b - 2 * root / c + 2 / d)]


def _hatch_margins(x: X) -> list[Any]:
    """What exceeds the limits of a hatch cover, as shares of them."""
    flange, beam = x
    bending = 4500 / (flange * beam)
    return [
        bending / 700 - 1,
        1800 / beam / 450 - 1,
        562000 / (700000 * flange * beam**2) / 1.5 - 1,
        bending / (7000 * flange**2) - 1,
    ]


def _hatch(x: X) -> list[Any]:
    return [x[0] + 120 * x[1], violation(*_hatch_margins(x))]


def _two_bars(x: X) -> list[Any]:
    a, b, y = x
    return [a * sqrt(16 + y**2) + b * sqrt(1 + y**2), 20 * sqrt(16 + y**2) / (a * y)]


def _two_bars_margins(x: X) -> list[Any]:
    _, b, y = x
    volume, stress = _two_bars(x)
    return [volume - 0.1, stress - 1e5, 80 * sqrt(1 + y**2) / (y * b) - 1e5]


def _weld(x: X) -> list[Any]:
    h, length, t, b = x
    cost = 1.10471 * h**2 * length + 0.04811 * t * b * (14 + length)
    return [cost, 4 * 6000 * 14**3 / (30e6 * b * t**3)]


def _weld_margins(x: X) -> list[Any]:
    h, length, t, b = x
    load, reach, young, shear_modulus = 6000, 14, 30e6, 12e6
    arm = sqrt(length**2 / 4 + ((h + t) / 2) ** 2)
    polar = 2 * float(np.sqrt(2)) * h * length * (length**2 / 12 + ((h + t) / 2) ** 2)
    twist = load * (reach + length / 2) * arm / polar
    direct = load / (float(np.sqrt(2)) * h * length)
    shear = sqrt(direct**2 + direct * twist * length / arm + twist**2)
    bending = 6 * load * reach / (b * t**2)
    slender = t / (2 * reach) * float(np.sqrt(young / (4 * shear_modulus)))
    buckling = 4.013 * young * t * b**3 / 6 / reach**2 * (1 - slender)
    return [shear - 13600, bending - 30000, h - b, load - buckling]


def _weld_kinked(x: X) -> list[Any]:
    return [*_weld(x), violation(*_weld_margins(x))]


def _disc_brake(x: X) -> list[Any]:
    inner, outer, force, count = x
    ring, cubes = outer**2 - inner**2, outer**3 - inner**3
    return [4.9e-5 * ring * (count - 1), 9.82e6 * ring / (force * count * cubes)]


def _disc_brake_margins(x: X) -> list[Any]:
    inner, outer, force, count = x
    ring, cubes = outer**2 - inner**2, outer**3 - inner**3
    return [
        20 - (outer - inner),
        force / (3.14 * ring) - 0.4,
        2.22e-3 * force * cubes / ring**2 - 1,
        900 - 2.66e-2 * force * count * cubes / ring,
    ]


def _disc_brake_kinked(x: X) -> list[Any]:
    return [*_disc_brake(x), violation(*_disc_brake_margins(x))]


def _crash(x: X) -> list[Any]:
    a, b, c, d, e = x
    return [
        1640.2823 + 2.3573285 * a + 2.3220035 * b + 4.5688768 * c + 7.7213633 * d + 4.4559504 * e,
        6.5856 + 1.15 * a - 1.0427 * b + 0.9738 * c + 0.8364 * d - 0.3695 * a * d + 0.0861 * a * e + 0.3628 * b * d
        - 0.1106 * a**2 - 0.3437 * c**2 + 0.1764 * d**2,
        -0.0551 + 0.0181 * a + 0.1024 * b + 0.0421 * c - 0.0073 * a * b + 0.024 * b * c - 0.0118 * b * d
        - 0.0204 * c * d - 0.008 * c * e - 0.0241 * b**2 + 0.0109 * d**2,
    ]  # fmt: skip


def _injector(x: X) -> list[Any]:
    a, h, o, t = x
    return [
        0.692 + 0.477 * a - 0.687 * h - 0.080 * o - 0.0650 * t - 0.167 * a**2 - 0.0129 * h * a + 0.0796 * h**2
        - 0.0634 * o * a - 0.0257 * o * h + 0.0877 * o**2 - 0.0521 * t * a + 0.00156 * t * h + 0.00198 * t * o
        + 0.0184 * t**2,
        0.153 - 0.322 * a + 0.396 * h + 0.424 * o + 0.0226 * t + 0.175 * a**2 + 0.0185 * h * a - 0.0701 * h**2
        - 0.251 * o * a + 0.179 * o * h + 0.0150 * o**2 + 0.0134 * t * a + 0.0296 * t * h + 0.0752 * t * o
        + 0.0192 * t**2,
        0.370 - 0.205 * a + 0.0307 * h + 0.108 * o + 1.019 * t - 0.135 * a**2 + 0.0141 * h * a + 0.0998 * h**2
        + 0.208 * o * a - 0.0301 * o * h - 0.226 * o**2 + 0.353 * t * a - 0.0497 * t * o - 0.423 * t**2
        + 0.202 * h * a**2 - 0.281 * o * a**2 - 0.342 * h**2 * a - 0.245 * h**2 * o + 0.281 * o**2 * h
        - 0.184 * t**2 * a - 0.281 * h * a * o,
    ]  # fmt: skip


def _reducer(x: X) -> list[Any]:
    face, module, teeth, left, right, first, second = x
    weight = 0.7854 * face * module**2 * (10 * teeth**2 / 3 + 14.933 * teeth - 43.0934)
    weight += -1.508 * face * (first**2 + second**2) + 7.477 * (first**3 + second**3)
    weight += 0.7854 * (left * first**2 + right * second**2)
    return [weight, sqrt((745 * left / (module * teeth)) ** 2 + 1.69e7) / (0.1 * first**3)]


def _reducer_margins(x: X) -> list[Any]:
    face, module, teeth, left, right, first, second = x
    stress = sqrt((745 * right / (module * teeth)) ** 2 + 1.575e8) / (0.1 * second**3)
    return [
        1 / (face * module**2 * teeth) - 1 / 27,
        1 / (face * module**2 * teeth**2) - 1 / 397.5,
        left**3 / (module * teeth * first**4) - 1 / 1.93,
        right**3 / (module * teeth * second**4) - 1 / 1.93,
        module * teeth - 40,
        face / module - 12,
        5 - face / module,
        1.9 - left + 1.5 * first,
        1.9 - right + 1.1 * second,
        _reducer(x)[1] - 1300,
        stress - 1100,
    ]


def _side_speeds(x: X) -> tuple[Any, Any]:
    a, b, c, _, e, f, g = x
    return 10.58 - 0.674 * a * b - 0.67275 * b, 16.45 - 0.489 * c * g - 0.843 * e * f


def _side_impact(x: X) -> list[Any]:
    a, b, c, d, e, f, g = x
    weight = 1.98 + 4.9 * a + 6.67 * b + 6.98 * c + 4.01 * d + 1.78 * e + 0.00001 * f + 2.73 * g
    return [weight, 4.72 - 0.5 * d - 0.19 * b * c, sum(_side_speeds(x)) / 2]


def _side_impact_margins(x: X) -> list[Any]:
    a, b, c, d, e, f, g = x
    pillar, door = _side_speeds(x)
    return [
        0.16 - 0.3717 * b * d - 0.0092928 * c,
        0.261 - 0.0159 * a * b - 0.06486 * a - 0.019 * b * g + 0.0144 * c * e + 0.0154464 * f - 0.32,
        0.214 + 0.00817 * e - 0.0587118 * a + 0.03099 * b * f - 0.018 * b * g + 0.030408 * c - 0.00364 * e * f
        - 0.018 * b**2 - 0.32,
        0.42 - 0.61 * b - 0.031296 * c - 0.031872 * g + 0.227 * b**2,
        -3.02 + 3.818 * c - 4.2 * a * b + 1.27296 * f - 2.68065 * g,
        3.31728 + 2.95 * c - 5.057 * a * b - 3.795 * b - 3.4431 * g,
        14.36 - 9.9 * b - 4.4505 * a,
        _side_impact(x)[1] - 4,
        pillar - 9.9,
        door - 15.7,
    ]  # fmt: skip


def _ship(x: X) -> dict[str, Any]:
    """The quantities of a bulk carrier that losses and constraints share."""
    length, beam, depth, draft, speed, block = x
    displacement = 1.025 * length * beam * draft * block
    froude = 0.5144 * speed / sqrt(9.8065 * length)
    resistance = 4977.06 * block**2 - 8105.61 * block + 4456.51
    resistance += (-10847.2 * block**2 + 12817.0 * block - 6960.32) * froude
    power = displacement ** (2 / 3) * speed**3 / resistance
    outfit = length**0.8 * beam**0.6 * depth**0.3 * block**0.1
    steel = 0.034 * length**1.7 * beam**0.7 * depth**0.4 * block**0.5
    light = steel + outfit + 0.17 * power**0.9
    capacity = displacement - light
    at_sea = 5000 / 24 * speed
    daily_fuel = 0.19 * power * 24 / 1000 + 0.2
    cargo = capacity - daily_fuel * (at_sea + 5) - 2 * capacity**0.5
    trips = 350 / (at_sea + 2 * (cargo / 8000 + 0.5))
    voyage = (1.05 * daily_fuel * at_sea * 100 + 6.3 * capacity**0.8) * trips
    capital = 0.2 * 1.3 * (2000 * steel**0.85 + 3500 * outfit + 2400 * power**0.8)
    costs = capital + 40000 * capacity**0.3 + voyage
    return {"costs": costs, "cargo": cargo * trips, "light": light, "capacity": capacity, "froude": froude}


def _marine(x: X) -> list[Any]:
    ship = _ship(x)
    return [ship["costs"] / ship["cargo"], ship["light"], -ship["cargo"]]


def _marine_margins(x: X) -> list[Any]:
    length, beam, depth, draft, _, block = x
    ship = _ship(x)
    height = 0.53 * draft + (0.085 * block - 0.002) * beam**2 / (draft * block) - 1 - 0.52 * depth
    return [
        6 - length / beam,
        length / depth - 15,
        length / draft - 19,
        draft - 0.45 * ship["capacity"] ** 0.31,
        draft - 0.7 * depth - 0.7,
        ship["capacity"] - 500000,
        3000 - ship["capacity"],
        ship["froude"] - 0.32,
        0.07 * beam - height,
    ]


def _water(x: X) -> list[Any]:
    a, b, c = x
    return [
        106780.37 * (b + c) + 61704.67,
        3000 * a,
        305700 * 2289 * b / (0.06 * 2289) ** 0.65,
        250 * 2289 * exp(-39.75 * b + 9.9 * c + 2.74),
        25 * (1.39 / (a * b) + 4940 * c - 80),
    ]


def _water_margins(x: X) -> list[Any]:
    a, b, c = x
    return [
        0.00139 / (a * b) + 4.94 * c - 1.08,
        0.000306 / (a * b) + 1.082 * c - 1.0986,
        12.307 / (a * b) + 49408.24 * c - 45948.98,
        2.098 / (a * b) + 8046.33 * c - 16696.71,
        2.138 / (a * b) + 7883.39 * c - 10705.04,
        0.417 * a * b + 1721.26 * c - 2136.54,
        0.164 / (a * b) + 631.13 * c - 604.48,
    ]


def _bnh(x: X) -> list[Any]:
    a, b = x
    return [4 * a**2 + 4 * b**2, (a - 5) ** 2 + (b - 5) ** 2]


def _bnh_margins(x: X) -> list[Any]:
    a, b = x
    return [(a - 5) ** 2 + b**2 - 25, 7.7 - (a - 8) ** 2 - (b + 3) ** 2]


def _srn(x: X) -> list[Any]:
    a, b = x
    return [2 + (a - 2) ** 2 + (b - 1) ** 2, 9 * a - (b - 1) ** 2]


def _srn_margins(x: X) -> list[Any]:
    a, b = x
    return [a**2 + b**2 - 225, a - 3 * b + 10]


def _tnk(x: X) -> list[Any]:
    return [x[0], x[1]]


def _tnk_margins(x: X) -> list[Any]:
    a, b = x
    return [1 + 0.1 * cos(16 * atan2(a, b)) - a**2 - b**2, (a - 0.5) ** 2 + (b - 0.5) ** 2 - 0.5]


def _osy(x: X) -> list[Any]:
    a, b, c, d, e, _ = x
    f1 = -(25 * (a - 2) ** 2 + (b - 2) ** 2 + (c - 1) ** 2 + (d - 4) ** 2 + (e - 1) ** 2)
    return [f1, sum(xi**2 for xi in x)]


def _osy_margins(x: X) -> list[Any]:
    a, b, c, d, e, f = x
    return [
        2 - a - b,
        a + b - 6,
        b - a - 2,
        a - 3 * b - 2,
        (c - 3) ** 2 + d - 4,
        4 - (e - 3) ** 2 - f,
    ]


def _constr(x: X) -> list[Any]:
    a, b = x
    return [a, (1 + b) / a]


def _constr_margins(x: X) -> list[Any]:
    a, b = x
    return [6 - b - 9 * a, 1 + b - 9 * a]


_root = 2**0.5
_bars = [1e-5, 1e-5, 1.0], [0.01, 0.01, 3.0]  # as in Deb 2001; the suite has 100, where all starts are alike
_beam = [0.125, 0.1, 0.1, 0.125], [5.0, 10.0, 10.0, 5.0]
_disc = [55, 75, 1000, 11], [80, 110, 3000, 20]
_gears = [2.6, 0.7, 17, 7.3, 7.3, 2.9, 5.0], [3.6, 0.8, 28, 8.3, 8.3, 3.9, 5.5]
_car = [0.5, 0.45, 0.5, 0.5, 0.875, 0.4, 0.4], [1.5, 1.35, 1.5, 1.5, 2.625, 1.2, 1.2]
_hull = [150, 20, 13, 10, 14, 0.63], [274.32, 32.31, 25, 11.71, 18, 0.75]
_found.add("RE21", [1, _root, _root, 1], 3, _four_bars, _SUITE, group="truss")
_found.add("RE24", [0.5, 0.5], [4, 50], _hatch, _SUITE, has_kinks=True, group="hatch cover")
_found.add("RE32", *_beam, _weld_kinked, _SUITE, has_kinks=True, group="welded beam")
_found.add("RE33", *_disc, _disc_brake_kinked, _SUITE, has_kinks=True, group="disc brake")
_found.add("RE34", 1, 3, _crash, _SUITE, n=5)
_found.add("RE37", 0, 1, _injector, _SUITE, n=4)
_found.add("CRE21", *_bars, _two_bars, _SUITE, constraints=_two_bars_margins)
_found.add("CRE22", *_beam, _weld, _SUITE, constraints=_weld_margins, group="welded beam")
_found.add("CRE23", *_disc, _disc_brake, _SUITE, constraints=_disc_brake_margins, group="disc brake")
_found.add("CRE24", *_gears, _reducer, _SUITE, constraints=_reducer_margins)
_found.add("CRE31", *_car, _side_impact, _SUITE, constraints=_side_impact_margins)
_found.add("CRE32", *_hull, _marine, _SUITE, constraints=_marine_margins)
_found.add("CRE51", [0.01] * 3, [0.45, 0.1, 0.1], _water, _SUITE, constraints=_water_margins)
_found.add("BNH", [0, 0], [5, 3], _bnh, "Binh and Korn 1997", constraints=_bnh_margins)
_found.add("SRN", -20, 20, _srn, "Srinivas and Deb 1994", n=2, constraints=_srn_margins)
_found.add("TNK", 1e-3, np.pi, _tnk, "Tanaka, Watanabe, Furukawa and Tanino 1995", n=2, constraints=_tnk_margins)
_found.add(
    "OSY",
    [0, 0, 1, 0, 1, 0],
    [10, 10, 5, 6, 5, 10],
    _osy,
    "Osyczka and Kundu 1995",
    constraints=_osy_margins,
)
_found.add("CONSTR", [0.1, 0], [1, 5], _constr, "Deb 2001", constraints=_constr_margins)

ENGINEERING = tuple(_found.problems)
"""All of them."""
