"""ferero beside Cooper's nuPI and augmented Lagrangian, on the same constraints and with searches of the same size.

``python benchmarks/cooper/compare.py`` runs what ``benchmarks/results/cooper.json`` does not hold yet;
``--table`` prints the tables from that file. See the README beside this file.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from check import check
from summary import FAMILIES, best_single, tables
from torch import Tensor, nn

import ferero
from ferero_lab.bench.measure import environment
from ferero_lab.bench.steer.steer_task import (
    SteerTask,
    degrees_off,
    make_optimizer,
    pairs,
    ray_at,
    synthetic,
    three,
    train,
)
from methods import METHODS, Method, Setting

RESULT = Path(__file__).parents[1] / "results" / "cooper.json"
ANGLES = (22.5, 45.0, 67.5)
OUTER = (22.5, 67.5)  # where it is hard; searches with noise, searches on pairs and other units keep to them
STEPS = {"exponential": 1500, "quadratic": 1500, "pairs": 2500, "three": 2500, "pairs, full": 5000}
RATES = {"exponential": (0.01, 0.1, 0.3), "quadratic": (0.003, 0.03, 0.09)}
OPTIMIZERS = (("sgd", 0.03), ("sgd", 0.1), ("adam", 1.5e-3), ("adam", 5e-3))
UNITS = {  # factors on the two losses, and on the learning rate
    "units: second loss x 100": ((1.0, 100.0), 1.0),
    "units: second loss x 100, rate / 50": ((1.0, 100.0), 0.02),
    "units: both x 100, rate / 100": ((100.0, 100.0), 0.01),
    "units: both / 100, rate x 100": ((0.01, 0.01), 100.0),
}


def tasks_of(family: str) -> Iterator[SteerTask]:
    """The tasks of a family that is searched."""
    problem, _, noise = family.partition(", noise ")
    if problem in RATES:
        for degrees in OUTER if noise else ANGLES:
            for rate in RATES[problem]:
                yield synthetic(problem, degrees, rate, float(noise or 0), STEPS[problem])
    elif problem == "pairs":
        for name, rate in OPTIMIZERS:
            for degrees in OUTER:
                yield pairs(name, rate, degrees, STEPS[problem])
    else:
        yield from (three(name, rate, STEPS["three"]) for name, rate in (("sgd", 0.1), ("adam", 5e-3)))


def in_other_units(degrees: float, rate: float, factors: tuple[float, float], of_rate: float) -> SteerTask:
    """The exponential problem, its losses multiplied by the factors; the error is measured in the old units."""
    task = synthetic("exponential", degrees, rate, 0.0, STEPS["exponential"])
    scale = torch.tensor(factors, dtype=torch.float64)

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        return scale * task.losses(model, step, seed)

    def error(values: Tensor) -> float:
        return degrees_off(values / scale, ray_at(degrees))

    return replace(
        task,
        preference=ferero.Preference.ray(scale * ray_at(degrees)),
        losses=losses,
        evaluate=lambda model: scale * task.evaluate(model),
        optimizer=make_optimizer("sgd", rate * of_rate),
        error=error,
    )


class Book:
    """All runs so far, written after each task; a run that is there is not repeated.

    Args:
        again: A method whose runs are forgotten.
    """

    def __init__(self, again: str | None = None) -> None:
        self.data: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"runs": []}
        self.data |= {
            "environment": environment() | {"cooper": version("cooper-optim")},
            "searches": {method.name: {"grid": method.grid, "default": method.default} for method in METHODS},
            "steps": STEPS,
            "threads": 1,
        }
        if again is not None:
            self.data["runs"] = [run for run in self.data["runs"] if run["method"] != again]
            self.data.pop("note", None)
        self.known = {_key(run) for run in self.data["runs"]}

    def run(self, family: str, task: SteerTask, method: Method, setting: Setting, seed: int = 0) -> None:
        """Train once and write down what came of it."""
        entry = {"family": family, "task": task.name, "method": method.name, "setting": dict(setting), "seed": seed}
        if _key(entry) in self.known:
            return
        run = train(task, method.make(task.preference, setting), seed)
        is_finite = run.jump is None
        entry |= {
            "worst": run.worst if is_finite else None,  # None: diverged
            "mean": run.mean if is_finite else None,
            "losses": run.tail.mean(dim=0).tolist() if is_finite else None,
            "seconds": round(run.seconds, 2),
        }
        self.data["runs"].append(entry)
        self.known.add(_key(entry))

    def save(self) -> None:
        """Write the file, one run a line."""
        head = {name: value for name, value in self.data.items() if name != "runs"}
        lines = ",\n".join(json.dumps(run) for run in self.data["runs"])
        RESULT.write_text(json.dumps(head, indent=1)[:-2] + ',\n "runs": [\n' + lines + "\n]}\n", encoding="utf-8")


def _key(run: dict[str, Any]) -> str:
    return json.dumps([run[name] for name in ("family", "task", "method", "setting", "seed")], sort_keys=True)


def search(book: Book, families: tuple[str, ...]) -> None:
    """Every setting of every method on every task."""
    for family in families:
        begin = time.perf_counter()
        for task in tasks_of(family):
            for method in METHODS:
                for setting in (*method.grid, *([method.default] if method.default else [])):
                    book.run(family, task, method, setting)
            book.save()
        print(f"{family}: {time.perf_counter() - begin:.0f} s", flush=True)


def chosen(book: Book, family: str) -> list[tuple[Method, Setting]]:
    """Each method with its best single setting of a family; ferero with its default."""
    return [(method, method.default or best_single(book.data["runs"], family, method.name)) for method in METHODS]


def transfer(book: Book) -> None:
    """What the settings found are worth in other units, and in full-length runs from another seed."""
    for family, (factors, of_rate) in UNITS.items():
        for method, setting in chosen(book, "exponential"):
            for degrees in OUTER:
                for rate in RATES["exponential"]:
                    book.run(family, in_other_units(degrees, rate, factors, of_rate), method, setting)
        book.save()
    for name, rate in (("sgd", 0.1), ("adam", 5e-3)):
        for degrees in ANGLES:
            task = pairs(name, rate, degrees, STEPS["pairs, full"])
            for method, setting in chosen(book, "pairs"):
                book.run("pairs, full length, another seed", task, method, setting, seed=1)
            book.save()


def main() -> None:
    """Run, or print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="print the tables from the results and run nothing")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="search only these (then nothing else)")
    parser.add_argument("--again", choices=[m.name for m in METHODS], help="forget this method's runs first")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.table:
        check()
        book = Book(options.again)
        search(book, tuple(options.family or FAMILIES))
        if not options.family:
            transfer(book)
    print(tables(json.loads(RESULT.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
