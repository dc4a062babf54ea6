"""A problem in numpy: a beam that should be light and bend little under its load.

Also from the command line:

    ferero solve examples/own_problem_numpy.py:beam -p "ray 1 1" --x0 "0,0" --names weight,bend
"""

import numpy as np

import ferero


def beam(x: np.ndarray) -> np.ndarray:
    width, height = np.exp(x)  # positive sizes for any real x
    weight = width * height
    bend = 1 / (width * height**3) + 0.05 * height / width  # slender beams buckle
    return np.array([weight, bend])


beam.numpy = True  # tells `ferero solve` to pass numpy arrays

if __name__ == "__main__":
    names = ["weight", "bend"]
    for text in ("weight - 2 * bend == 0", "bend <= 0.2", "ray 1 1"):
        preference = ferero.Preference.parse(text, names=names)
        result = ferero.minimize(beam, np.zeros(2), preference)
        print(f"{text:24} {result.status:12} weight {result.losses[0]:.4f}  bend {result.losses[1]:.4f}")
