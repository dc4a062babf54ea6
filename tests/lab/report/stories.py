"""A story with every kind of panel, as rich as an experiment's."""

from __future__ import annotations

import numpy as np

from ferero_lab.experiments.experiment import Section, Story
from ferero_lab.report.panels import (
    Bars,
    Curve,
    FrontPanel,
    FrontPoint,
    Heat,
    Level,
    Lines,
    Mark,
    Profile,
    Segment,
    Table,
)

METHODS = ("FERERO", "linear scalarisation", "MGDA", "PMTL", "EPO")
SENTENCE = "今天天气很好我们一起去公园看花吧明天也是一个晴天大家都很高兴地唱着歌回家了"
RAYS = ("ray 1 : 3", "ray 1 : 1", "ray 3 : 1")
EMOTIONS = ("amazed", "happy", "relaxing", "quiet", "sad", "angry")
CONFIG = {
    "command": "run synthetic",
    "options": {"mode": "quick", "seeds": 3, "only": (), "methods": list(METHODS), "epochs": None},
    "versions": {"ferero": "0.1.0", "python": "3.11.2", "torch": "2.13.0"},
}


def plane(title: str, seed: int, *, paths: bool = True, spread: bool = False) -> FrontPanel:
    """Five methods, three rays, two losses."""
    random = np.random.default_rng(seed)
    directions = np.array([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])
    points = []
    for i, method in enumerate(METHODS):
        for ray, direction in zip(RAYS, directions, strict=True):
            end = 0.62 * direction / np.linalg.norm(direction) + 0.03 * i * random.standard_normal(2)
            way = np.linspace([0.95, 0.98], end, 400) + 0.05 * np.sin(np.linspace(0, 3.1, 400))[:, None] * [i - 2, 1]
            points.append(
                FrontPoint(
                    end.tolist(),
                    method,
                    ray,
                    {
                        "weights": "0.31, 0.69",
                        "violation": f"{0.01 * i:.3f}",
                        "seed": "0",
                        "status": "max_iter" if method == "PMTL" else "converged",
                        "bound": "f1 <= 0.3 & f2 > 0",
                    },
                    path=way.tolist() if paths else (),
                    spread=(0.02, 0.03) if spread else (),
                    ok=method != "PMTL",
                    place=ray,
                )
            )
    angles = np.linspace(0.02, np.pi / 2 - 0.02, 200)
    truth = 0.6 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    segments = [Segment((0, 0), (1.2 * d).tolist(), ray, ray) for ray, d in zip(RAYS, directions, strict=True)]
    return FrontPanel(title, ("f1", "f2"), points, segments, truth.tolist())


def space() -> FrontPanel:
    """Three losses, three methods."""
    random = np.random.default_rng(3)
    rays = random.dirichlet([3, 3, 3], 6)
    points = [
        FrontPoint(
            (ray / np.linalg.norm(ray) * (1 + 0.1 * i)).tolist(),
            method,
            f"ray {r + 1}",
            {"weights": "0.2, 0.3, 0.5"},
            path=np.linspace([1, 1, 1], ray / np.linalg.norm(ray) * (1 + 0.1 * i), 30).tolist(),
            ok=r != 2,
            place=f"ray {r + 1}",
        )
        for i, method in enumerate(METHODS[:3])
        for r, ray in enumerate(rays)
    ]
    sphere = np.abs(random.standard_normal((500, 3)))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    segments = [
        Segment((0, 0, 0), (1.2 * ray / np.linalg.norm(ray)).tolist(), f"ray {r + 1}") for r, ray in enumerate(rays)
    ]
    return FrontPanel("Three losses", ("accuracy loss", "fairness gap", "latency"), points, segments, sphere.tolist())


def parallel() -> FrontPanel:
    """Six losses, two methods."""
    random = np.random.default_rng(4)
    points = [
        FrontPoint(
            (0.3 + 0.1 * random.random(6) + 0.08 * i).tolist(),
            method,
            f"preference {p + 1}",
            {"violation": "0.002"},
            spread=(0.02,) * 6 if p == 0 else (),
            ok=p != 3,
        )
        for i, method in enumerate(METHODS[:2])
        for p in range(5)
    ]
    return FrontPanel("Six losses", EMOTIONS, points, [Segment((0,) * 6, (0.5, 0.4, 0.45, 0.4, 0.5, 0.42), "wanted")])


def curves(log: bool) -> Lines:
    """Four methods over steps, with bands; one has a gap."""
    steps = np.arange(1, 2001)
    lines = []
    for i, method in enumerate(METHODS[:4]):
        values = (1 + 0.1 * np.sin(steps / 40 + i)) * steps ** (-0.4 - 0.15 * i)
        if i == 1:
            values[300:600] = np.nan
        spread = 0.6 * values if i == 0 else 0.2 * values
        lines.append(Curve(steps.tolist(), values.tolist(), method, spread.tolist(), dashed=i == 3))
    return Lines("Error against steps", "gradient evaluations", "ray error (degrees)", lines, log_x=log, log_y=log)


def short_curves() -> Lines:
    """A few points a line, and names that no method has."""
    sizes = [1, 2, 5, 10, 25]
    return Lines(
        "Time per model",
        "models at once",
        "time / time of one",
        [
            Curve(sizes, [1, 0.6, 0.4, 0.33, 0.3], "one graph"),
            Curve(sizes, [1, 1, 1, 1, 1], "a loop", dashed=True),
        ],
        log_x=True,
    )


def bars() -> Bars:
    """Hypervolumes of five methods on three data sets, one missing."""
    random = np.random.default_rng(5)
    values = (0.5 + 0.4 * random.random((3, 5))).tolist()
    values[1][2] = float("nan")
    return Bars(
        "Hypervolume on the test data",
        "hypervolume",
        ("Multi-MNIST", "Multi-Fashion", "Multi-Fashion+MNIST"),
        METHODS,
        values,
        (0.03 * np.ones((3, 5))).tolist(),
    )


def profile() -> Profile:
    """Five methods, ten preferences, six losses."""
    random = np.random.default_rng(6)
    values = [random.dirichlet([400 / (1 + 8 * i)] * 6, 10).tolist() for i in range(5)]
    return Profile("Relative loss profiles", EMOTIONS, METHODS, values)


def spectrogram() -> Heat:
    """Two seconds of eighty bins with a blank stretch, and a sentence over them."""
    values = np.random.default_rng(7).standard_normal((80, 200))
    values[:, 90:100] = np.nan
    times = (0.01 * np.arange(200)).tolist()
    marks = [Mark(0.1 + 0.04 * i, sign) for i, sign in enumerate(SENTENCE)]
    return Heat("Spectrogram", "time (s)", "mel bin", values.tolist(), times, (), "log energy", marks)


def alignment() -> Heat:
    """The signs of the sentence over fifty frames, and a path through them."""
    times = 0.04 * np.arange(50)
    centres = 0.1 + 0.04 * np.arange(len(SENTENCE))
    values = np.exp(-(((times - centres[:, None]) / 0.05) ** 2))
    path = [Mark(0.1 + 0.04 * i, sign, row=i) for i, sign in enumerate(SENTENCE)]
    return Heat("Alignment", "time (s)", "sign", values.tolist(), times.tolist(), SENTENCE, "probability", path, True)


def heard() -> Table:
    """Sentences beside figures."""
    return Table(("utterance", "said", "heard", "errors"), [("BAC009S0252W0170", SENTENCE, SENTENCE[:-3], "8.1 %")])


def bounded() -> Lines:
    """A curve and what it may be at most."""
    return Lines("Bounded", "step", "loss", [Curve([0, 1, 2], [4, 2, 1], "cpc")], levels=[Level(1.2, "cpc <= 1.2")])


def rich_story() -> Story:
    """All of it."""
    long = Table(
        ("preference", "method", "f1", "f2", "ray error", "status"),
        [
            (f"f1 <= {0.01 * i:.2f}", METHODS[i % 5], f"{0.1 + 0.01 * i:.4f}", "0.3141", "0.12", "converged")
            for i in range(45)
        ],
        "All runs",
        "Mean of three seeds; ± is the standard deviation.",
    )
    small = Table(
        ("", "this run", "the paper"),
        [(method, f"{0.6 + 0.05 * i:.3f} ± 0.002", f"{0.6 + 0.04 * i:.3f}") for i, method in enumerate(METHODS)],
        "Hypervolume",
        "Reference point (1, 1).",
    )
    fronts = [
        plane("Easy start, exact rays", 0),
        plane("Hard start near the front", 1),
        plane("Three seeds", 2, paths=False, spread=True),
    ]
    return Story(
        "Synthetic: five methods & two kinds of preference",
        "Every method starts from the same point; what was asked is dashed, what was found is a marker.",
        [
            Section("Rays with two losses", "Losses of <b>two</b> tasks.\n\nBelow: all runs.", fronts, [small]),
            Section("Three losses", "", [space()]),
            Section("Six losses", "Each line is one model.", [parallel(), profile()]),
            Section("Convergence and cost", "", [curves(True), short_curves(), bars()], [long]),
            Section("Speech", "", [spectrogram(), alignment(), bounded()], [heard()]),
        ],
        {"hypervolume": dict.fromkeys(METHODS, 0.6), "nothing": float("nan")},
    )
