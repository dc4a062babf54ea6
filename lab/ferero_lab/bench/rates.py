"""Gaps of decisions on held-out people: `ferero.rates` beside fairlearn's reductions, on Adult and German credit.

``python -m ferero_lab.bench.rates adult DATA --out benchmarks/results/rates-adult.json``, and for german likewise.

A logistic regression is fitted under a largest gap, of positive rates or of true positive rates, between women and men,
by `Steer` on batches, without a margin below the bound, and by fairlearn's ExponentiatedGradient around scikit-learn's
LogisticRegression on the same features. On ten splits, the gap and the error of decisions on the people held out.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import ferero
from ferero import rates
from ferero.files import write_whole
from ferero_lab.bench.measure import environment
from ferero_lab.data import CensusPart, adult, german

__all__ = ["BOUNDS", "Fitted", "main", "measured", "steered", "summary", "table"]

BOUNDS = (0.02, 0.05, 0.1)
SPLITS = 10
GAPS = {"demographic parity": rates.demographic_parity, "true positive rates": rates.equal_opportunity}
METHODS = ("ferero", "fairlearn")
TRAINED = {"adult": 10_000, "german": 700}
"""How many people a model learns from; the others are held out."""


@dataclass(frozen=True)
class Fitted:
    """One fitted model on the people held out.

    Attributes:
        data: "adult" or "german".
        gap: Of what: a key of `GAPS`.
        bound: What was asked; None for no bound.
        method: "ferero" or "fairlearn".
        split: 0 to 9.
        found: The gap of decisions between men and women, with its sign.
        error: The share of wrong decisions.
        seconds: To fit it.
    """

    data: str
    gap: str
    bound: float | None
    method: str
    split: int
    found: float
    error: float
    seconds: float


def people(name: str, folder: str | Path | None) -> CensusPart:
    """All people of a data set."""
    if name == "german":
        return german(folder)
    census = adult(folder)
    parts = (census.train, census.validation, census.test)
    return CensusPart(*(torch.cat([getattr(part, x) for part in parts]) for x in ("features", "labels", "groups")))


def split_of(everybody: CensusPart, trained: int, seed: int) -> tuple[CensusPart, CensusPart]:
    """People to learn from, and people held out, at random."""
    order = torch.randperm(len(everybody), generator=torch.Generator().manual_seed(seed))
    return tuple(  # type: ignore[return-value]
        CensusPart(everybody.features[rows], everybody.labels[rows], everybody.groups[rows])
        for rows in (order[:trained], order[trained:])
    )


def steered(train: CensusPart, fair: rates.Gap, seed: int, steps: int = 1000) -> nn.Linear:
    """A logistic regression by Adam, whose rate falls to 0 along a cosine, on batches; steered within the gap."""
    draw = torch.Generator().manual_seed(seed)
    batch = min(2048, len(train) // 2)
    model = nn.Linear(train.features.shape[1], 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    at_the_bound = ferero.FereroPI(headroom=0.0, release=1.0)  # the learning rate falls to 0, so no margin is needed
    steer = ferero.Steer(fair.preference, at_the_bound)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        rows = torch.randint(len(train), (batch,), generator=draw)
        logits = model(train.features[rows])[:, 0]
        loss = functional.binary_cross_entropy_with_logits(logits, train.labels[rows])
        optimizer.zero_grad()
        steer({"loss": loss, **fair(logits, train.labels[rows], train.groups[rows])}).backward()
        optimizer.step()
        schedule.step()
    return model


def reduced(train: CensusPart, gap: str, bound: float, test: CensusPart, seed: int) -> Tensor:
    """The decisions of fairlearn's randomised classifier on the people held out, (n,), bool."""
    import pandas as pd  # type: ignore[import-untyped]
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient, TruePositiveRateParity
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    kind = DemographicParity if gap == "demographic parity" else TruePositiveRateParity
    # fairlearn bounds a group's distance to the rate of all: for two groups, the other's share times the gap.
    counted = train.groups if gap == "demographic parity" else train.groups[train.labels > 0.5]
    share = float(counted.double().mean())
    bounded = kind(difference_bound=bound * max(share, 1 - share))
    model = ExponentiatedGradient(LogisticRegression(solver="newton-cholesky"), bounded)
    frame = pd.DataFrame(train.features.double().numpy())
    model.fit(frame, train.labels.int().numpy(), sensitive_features=train.groups.numpy())
    found = model.predict(pd.DataFrame(test.features.double().numpy()), random_state=seed)
    return torch.from_numpy(np.asarray(found)) > 0


def measured(gap: str, decisions: Tensor, test: CensusPart) -> tuple[float, float]:
    """The gap of decisions between men and women, with its sign, and the share that is wrong."""
    counted = torch.ones_like(test.labels) if gap == "demographic parity" else test.labels
    women, men = (decisions[(test.groups == k) & (counted > 0)].double().mean() for k in (0, 1))
    return float(men - women), float((decisions != (test.labels > 0.5)).double().mean())


def cells(data: str, folder: str | Path | None, splits: int) -> Iterator[Fitted]:
    """Every method, gap, bound and split of a data set."""
    everybody = people(data, folder)
    for split in range(splits):
        train, test = split_of(everybody, TRAINED[data], split)
        for gap, fair in GAPS.items():
            for bound in BOUNDS:
                start = time.perf_counter()
                decisions = steered(train, fair(bound), split)(test.features)[:, 0] > 0
                yield Fitted(data, gap, bound, "ferero", split, *measured(gap, decisions, test), _since(start))
                start = time.perf_counter()
                decisions = reduced(train, gap, bound, test, split)
                yield Fitted(data, gap, bound, "fairlearn", split, *measured(gap, decisions, test), _since(start))


def _since(start: float) -> float:
    return time.perf_counter() - start


def summary(found: Sequence[Fitted]) -> list[dict[str, Any]]:
    """By data set, gap and bound: mean absolute gaps and errors of both methods, with standard errors over splits."""
    rows = []
    for data in TRAINED:
        for gap in GAPS:
            for bound in BOUNDS:
                row: dict[str, Any] = {"data": data, "gap": gap, "bound": bound}
                for method in METHODS:
                    own = [c for c in found if (c.data, c.gap, c.bound, c.method) == (data, gap, bound, method)]
                    if own:
                        row[method] = {
                            "gap": _mean([abs(c.found) for c in own]),
                            "error": _mean([c.error for c in own]),
                            "seconds": fmean(c.seconds for c in own),
                            "splits": len(own),
                        }
                if "ferero" in row:
                    rows.append(row)
    return rows


def _mean(values: Sequence[float]) -> tuple[float, float]:
    return fmean(values), stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The header and the lines of the table."""
    header = ["data", "gap of", "asked", "gap, ferero", "gap, fairlearn", "error, ferero", "error, fairlearn"]
    lines = []
    for row in rows:
        shown = [_plus_minus(row[method][figure]) for figure in ("gap", "error") for method in METHODS]
        lines.append([row["data"], row["gap"], f"{row['bound']:g}", *shown])
    return header, lines


def _plus_minus(pair: Sequence[float]) -> str:
    return f"{pair[0]:.3f} ± {pair[1]:.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line says, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m ferero_lab.bench.rates", description=__doc__)
    parser.add_argument("name", choices=list(TRAINED), help="which data set")
    parser.add_argument("data", help="folder with adult/ and german/")
    parser.add_argument("--out", type=Path, required=True, help="file for the result, written after every split")
    parser.add_argument("--splits", type=int, default=SPLITS, help="random splits into learned from and held out")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found: list[Fitted] = []
    per_split = len(METHODS) * len(GAPS) * len(BOUNDS)
    for cell in cells(given.name, given.data, given.splits):
        found.append(cell)
        if len(found) % per_split == 0:
            kept = {"environment": environment(), "rows": summary(found), "cells": [vars(one) for one in found]}
            write_whole(given.out, (json.dumps(kept, indent=1) + "\n").encode())
            print(f"{given.name}: split {len(found) // per_split} of {given.splits}", flush=True)


if __name__ == "__main__":
    main()
