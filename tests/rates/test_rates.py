"""Rates: the exact value, the surrogate's gradient and the count; gaps between groups as preferences."""

from __future__ import annotations

import re

import pytest
import torch
from torch.nn import functional

import ferero
from ferero import rates
from ferero.errors import InputError

DRAW = torch.Generator().manual_seed(0)
LOGITS = torch.randn(200, generator=DRAW)
LABELS = (torch.rand(200, generator=DRAW) < 0.4).float()
GROUPS = (torch.rand(200, generator=DRAW) < 0.2).long()


@pytest.mark.parametrize("group", [None, 0, 1])
def test_the_rates_are_those_of_scikit_learn(group):
    from sklearn import metrics

    where = None if group is None else group == GROUPS
    rows = slice(None) if where is None else where
    truth, said = LABELS[rows].numpy(), (LOGITS > 0)[rows].numpy()
    tn, fp, fn, tp = metrics.confusion_matrix(truth, said).ravel()
    wanted = {
        "true_positive_rate": (tp / (tp + fn), tp + fn),
        "recall": (metrics.recall_score(truth, said), tp + fn),
        "false_positive_rate": (fp / (fp + tn), fp + tn),
        "precision": (metrics.precision_score(truth, said), tp + fp),
        "accuracy": (metrics.accuracy_score(truth, said), len(truth)),
        "true_positives": (tp / len(truth), len(truth)),
    }
    for name, (value, count) in wanted.items():
        found = getattr(rates, name)(LOGITS, LABELS, where)
        assert float(found.value) == pytest.approx(value, abs=1e-6), name
        assert int(found.count) == count, name
    positive = rates.positive_rate(LOGITS, where)
    assert float(positive.value) == pytest.approx(said.mean(), abs=1e-6)


def all_rates(logits, labels, where=None):
    names = ("true_positive_rate", "false_positive_rate", "recall", "precision", "accuracy", "true_positives")
    yield rates.positive_rate(logits, where)
    yield from (getattr(rates, name)(logits, labels, where) for name in names)


def test_the_value_is_exact_and_the_gradient_the_surrogate_s():
    logits = LOGITS.clone().requires_grad_()
    for rate in all_rates(logits, LABELS):
        (of_loss,) = torch.autograd.grad(rate.loss, logits, retain_graph=True)
        (of_surrogate,) = torch.autograd.grad(rate.surrogate, logits, retain_graph=True)
        assert torch.equal(of_loss, of_surrogate)
        assert of_loss.abs().sum() > 0
        assert rate.loss.item() == rate.value.item()
        assert not rate.value.requires_grad


def test_surrogates_approach_the_exact_rates_of_sure_decisions():
    for rate in all_rates(1000 * LOGITS, LABELS):
        assert float(rate.surrogate) == pytest.approx(float(rate.value), abs=0.01)


def test_an_empty_group_has_a_count_of_0_and_finite_numbers():
    nobody = torch.zeros(200, dtype=torch.bool)
    logits = LOGITS.clone().requires_grad_()
    for rate in all_rates(logits, LABELS, nobody):
        assert int(rate.count) == 0
        (gradient,) = torch.autograd.grad(rate.loss, logits)
        assert torch.equal(gradient, torch.zeros(200))
        assert torch.isfinite(rate.value)
    assert int(rates.precision(-LOGITS.abs() - 1, LABELS).count) == 0


def test_steer_takes_a_rate_as_the_loss_and_its_count():
    fair = rates.demographic_parity(0.05, groups=("women", "men"))
    one, other = (ferero.Steer(fair.preference) for _ in range(2))
    for step in range(10):
        rows = torch.randint(200, (8,), generator=torch.Generator().manual_seed(step))  # sometimes without a group
        logits = LOGITS[rows].requires_grad_()
        loss = functional.binary_cross_entropy_with_logits(logits, LABELS[rows])
        found = fair(logits, LABELS[rows], GROUPS[rows])
        by_rates = one({"loss": loss, **found})
        values = {name: rate.loss for name, rate in found.items()}
        by_hand = other({"loss": loss, **values}, counts={name: float(rate.count) for name, rate in found.items()})
        assert torch.equal(by_rates, by_hand)
        assert torch.equal(one.weights, other.weights)
    assert any(int(rate.count) == 0 for rate in fair(LOGITS[:3], LABELS[:3], GROUPS[:3] * 0).values())


def test_small_batches_do_not_bias_what_is_steered():
    # A fixed classifier, batches of six in which a group of one in five is often missing: today's losses are the rates.
    fair = rates.demographic_parity(0.05)
    steer = ferero.Steer(fair.preference)
    draw, found = torch.Generator().manual_seed(1), []
    for step in range(900):
        rows = torch.randint(200, (6,), generator=draw)
        logits = LOGITS[rows].requires_grad_()
        steer({"loss": logits.square().mean(), **fair(logits, LABELS[rows], GROUPS[rows])})
        if step >= 200 and step % 5 == 0:
            found.append(steer.losses[1:].clone())
    wanted = [float((LOGITS > 0)[k == GROUPS].float().mean()) for k in (0, 1)]
    assert torch.stack(found).mean(dim=0).tolist() == pytest.approx(wanted, abs=0.04)


def test_a_gap_of_decisions_is_met():
    draw = torch.Generator().manual_seed(0)
    groups = (torch.rand(4000, generator=draw) < 0.3).long()
    x = torch.randn(4000, 3, generator=draw) + 0.8 * groups[:, None]
    y = (x.sum(dim=1) + torch.randn(4000, generator=draw) > 1.5).float()
    fair = rates.demographic_parity(0.1, groups=("a", "b"))
    steer = ferero.Steer(fair.preference, ferero.FereroPI(headroom=0.0))
    model = torch.nn.Linear(4, 1)
    x = torch.cat([x, groups[:, None]], dim=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)
    for _ in range(300):
        rows = torch.randint(4000, (512,), generator=draw)
        logits = model(x[rows])[:, 0]
        loss = functional.binary_cross_entropy_with_logits(logits, y[rows])
        optimizer.zero_grad()
        steer({"loss": loss, **fair(logits, y[rows], groups[rows])}).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        said = model(x)[:, 0] > 0
    gap = said[groups == 1].float().mean() - said[groups == 0].float().mean()
    plain = y[groups == 1].mean() - y[groups == 0].mean()
    assert plain > 0.3
    assert abs(gap) < 0.12


def test_every_pair_of_groups_is_bounded():
    odds = rates.equalised_odds(0.1, groups=("a", "b", "c"), minimize="error")
    assert odds.preference.m == 7
    assert odds.preference.m_g == 2 * 2 * 3  # two rates, bands of two sides, three pairs
    assert odds.preference.names[0] == "error"
    found = odds(LOGITS, LABELS, GROUPS)
    assert tuple(found) == odds.preference.names[1:]
    assert int(found["true_positive_rate_c"].count) == 0
    assert rates.equal_opportunity(0.1).preference.names[1:] == ("true_positive_rate_0", "true_positive_rate_1")


ONE = torch.tensor(0.5)
REFUSED = {
    "count: expected how many examples the rate is a share of": lambda: rates.Rate(ONE, ONE, None),
    "count: expected how many": lambda: rates.Rate(ONE, ONE, -1),
    "value: expected a tensor of one number, found float": lambda: rates.Rate(0.5, ONE, 1),
    "surrogate: expected a tensor of one number, found shape (2,)": lambda: rates.Rate(ONE, torch.ones(2), 1),
    "logits: expected (n,), one real number for each example, found torch.float32 (3, 1)": lambda: rates.positive_rate(
        torch.ones(3, 1)
    ),
    "where: expected (200,), bool": lambda: rates.positive_rate(LOGITS, GROUPS),
    "labels: expected (200,), 0 or 1": lambda: rates.accuracy(LOGITS, LABELS[:3]),
    "groups: expected the names of two groups": lambda: rates.demographic_parity(0.1, groups=("a",)),
    "groups: expected the names of two groups or more, found the string 'ab'": lambda: rates.equalised_odds(0.1, "ab"),
    "gap: expected the largest difference": lambda: rates.equal_opportunity(0.0),
    "rates: expected some of positive_rate": lambda: rates.Gap(("accuracy",), 0.1, ("a", "b")),
    "groups: expected (200,), integers from 0 to 1, found torch.float32": lambda: rates.demographic_parity(0.1)(
        LOGITS, LABELS, LABELS
    ),
    "groups: expected (200,), integers from 0 to 1, found 0 to 2": lambda: rates.demographic_parity(0.1)(
        LOGITS, LABELS, 2 * GROUPS
    ),
    "groups: expected (200,), integers from 0 to 1, found list": lambda: rates.demographic_parity(0.1)(
        LOGITS, LABELS, [0]
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_refused(words):
    with pytest.raises(InputError, match=f"^{re.escape(words)}"):
        REFUSED[words]()


def test_a_second_count_of_a_rate_is_refused():
    fair = rates.demographic_parity(0.05)
    steer = ferero.Steer(fair.preference)
    logits = LOGITS.clone().requires_grad_()
    before = steer.state_dict()
    with pytest.raises(InputError, match="counts: expected none for 'positive_rate_1', which is a rate with a count"):
        steer({"loss": logits.mean(), **fair(logits, LABELS, GROUPS)}, counts={"positive_rate_1": 3})
    assert all(torch.equal(tensor, steer.state_dict()[name]) for name, tensor in before.items())


# precision from small batches -----------------------------------------------------------------------------


def batches(size, shares, count, seed=0):
    """Batches of logits and labels, whose shares of ones take turns; half of the ones and a sixth of the zeros pass."""
    draw = torch.Generator().manual_seed(seed)
    for i in range(count):
        labels = torch.rand(size, generator=draw) < shares[i % len(shares)]
        yield torch.randn(size, generator=draw) + torch.where(labels, 0.0, -1.0), labels.float()


def passing(share):
    """The precision of `batches` in the long run."""
    of_ones, of_zeros = 0.5, 0.5 * (1 - torch.erf(torch.tensor(0.5**0.5)).item())
    return share * of_ones / (share * of_ones + (1 - share) * of_zeros)


@pytest.mark.parametrize("size", [2, 4, 16])
def test_the_mean_of_a_precision_is_not_biased_where_batches_are_alike(size):
    found = [rates.precision(*batch) for batch in batches(size, [0.3], 6000)]
    values = torch.stack([rate.value for rate in found if rate.count > 0])
    assert size > 4 or len(values) < len(found)  # some batches have no positive decision, and wait
    assert abs(values.mean().item() - passing(0.3)) < 3 * values.std().item() / len(values) ** 0.5


@pytest.mark.parametrize("size", [4, 16])
def test_where_batches_differ_the_ratio_of_two_shares_is_not_biased(size):
    f = ferero.objectives("hits", "positives")
    preference = ferero.Preference(f, [f.hits / f.positives >= passing(0.3)])
    drawn = list(batches(size, [0.05, 0.55], 6000))
    shares = [[rates.true_positives(*batch).value, rates.positive_rate(batch[0]).value] for batch in drawn]
    rows = preference.values(torch.tensor(shares))[0]
    assert abs(rows.mean().item()) < 3 * rows.std().item() / len(rows) ** 0.5
    alone = [rates.precision(*batch) for batch in drawn]
    values = torch.stack([rate.value for rate in alone if rate.count > 0])
    assert values.mean().item() < passing(0.3) - 0.04
    assert 5 * values.std().item() / len(values) ** 0.5 < 0.04


def steered_precision(seed):
    """The precision at the mean threshold of the last half of a training, under hits / positives >= 0.8."""
    f = ferero.objectives("loss", "hits", "positives")
    steer = ferero.Steer(ferero.Preference(f, [f.hits / f.positives >= 0.8], minimize=f.loss))
    threshold, visited = torch.tensor(0.0, requires_grad=True), []
    optimizer = torch.optim.SGD([threshold], lr=0.03)
    for logits, labels in batches(16, [0.05, 0.55], 600, seed):
        said = logits - threshold
        missed = (1 - torch.sigmoid(said)).mean()  # what it costs to say no
        found = {"hits": rates.true_positives(said, labels), "positives": rates.positive_rate(said)}
        optimizer.zero_grad()
        steer({"loss": missed, **found}).backward()
        optimizer.step()
        visited.append(threshold.item())
    logits, labels = (torch.cat(part) for part in zip(*batches(1000, [0.05, 0.55], 50, seed=99), strict=True))
    return rates.precision(logits - sum(visited[300:]) / 300, labels).value.item()


@pytest.mark.slow
def test_a_precision_is_held_on_average_from_small_batches_that_differ():
    """Of four trainings, since a single one wanders by a tenth: a batch of 16 has about two positives."""
    assert sum(map(steered_precision, range(4))) / 4 == pytest.approx(0.8, abs=0.05)
