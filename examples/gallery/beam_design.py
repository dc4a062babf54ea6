"""A welded steel beam, 6 m long, with 40 kN in its middle: four objectives, two bounds and an equality."""

import numpy as np

import ferero

length, load, E = 6.0, 40e3, 210e9


def beam(x):
    height, width, web, flange = np.exp(x)  # in metres; the logarithm keeps them positive
    inner = height - 2 * flange
    inertia = (width * height**3 - (width - web) * inner**3) / 12
    mass = 7850 * length * (2 * width * flange + inner * web)
    bend = load * length**3 / (48 * E * inertia)
    pull, shear = load * length * height / (8 * inertia), load / (2 * inner * web)
    stress = np.hypot(pull, np.sqrt(3) * shear)
    buckling = np.hypot(pull / (1.55 * E * (flange / width) ** 2), shear / (4.8 * E * (web / inner) ** 2))
    return np.array([mass / 200, bend / (length / 300), stress / 235e6, buckling])  # 1 is the limit


f = ferero.objectives("mass", "bend", "stress", "buckling")
start = np.log([0.24, 0.12, 0.010, 0.012])
safe = [f.bend <= 0.3, f.stress <= 0.6, f.stress == f.buckling]
preferences = [
    ferero.Preference(f, safe, minimize=f.mass),
    ferero.Preference(f, minimize=f.mass + f.bend + f.stress + f.buckling),
]
results = [ferero.minimize(beam, start, preference) for preference in preferences]
front = ferero.Front.from_results(results)
print(results[0])
print("height, width, web, flange in mm:", (1000 * np.exp(results[0].x)).round(1))
print("first design:", beam(start).round(3))
print("plain sum:   ", results[1].losses.round(3))

ax = front.plot()
ax.plot(beam(start), ":", color="gray")
ax.plot([1, 2], [0.3, 0.6], "v", color="gray", markersize=11, fillstyle="none")
ax.set_ylabel("share of the limit")
words = ["lightest safe beam", "plain sum", "first design", "bound"]
ax.legend(ax.lines[-4:], words, loc="upper left", bbox_to_anchor=(1, 1))
ax.figure.savefig("beam_design.png", bbox_inches="tight")
