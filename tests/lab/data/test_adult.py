"""People, incomes and groups, from files or made up."""

import gzip
import re

import numpy as np
import pytest
import torch

from ferero.errors import InputError
from ferero_lab.data import adult, adult_like

from .conftest import write

KNOWN = """39, State-gov, 77516, Bachelors, 13, Never-married, Sales, Own-child, White, Male, 2174, 0, 40, Cuba, <=50K
50, Private, 83311, Bachelors, 13, Divorced, Sales, Husband, White, Male, 0, 0, 13, India, >50K
38, ?, 215646, HS-grad, 9, Divorced, ?, Wife, Black, Female, 0, 0, 40, Cuba, >50K
53, Private, 234721, 11th, 7, Divorced, Sales, Husband, Black, Male, 0, 0, 40, Cuba, <=50K

"""
UNSEEN = """|1x3 Cross validator
25, Private, 226802, 11th, 7, Divorced, Sales, Own-child, Black, Female, 0, 0, 40, Peru, <=50K.
38, ?, 89814, HS-grad, 9, Divorced, ?, Husband, White, Male, 0, 0, 50, India, >50K.

"""


@pytest.fixture
def put(tmp_path, register):
    """put(known, unseen): a folder with these two files, the first packed."""

    def make(known=KNOWN, unseen=UNSEEN):
        register("adult/adult.data", known.encode())
        register("adult/adult.test", unseen.encode())
        write(tmp_path, "adult/adult.data.gz", gzip.compress(known.encode()))
        write(tmp_path, "adult/adult.test", unseen.encode())
        return tmp_path

    return make


def column(data, part, name):
    return getattr(data, part).features[:, data.feature_names.index(name)].tolist()


def test_numbers_are_standardised_and_categories_marked(put):
    data = adult(put(), validation=1)
    assert (len(data.train), len(data.validation), len(data.test)) == (3, 1, 2)
    assert data.feature_names[:6] == (
        "age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week",
    )  # fmt: skip
    assert data.feature_names[6:9] == ("workclass=?", "workclass=Private", "workclass=State-gov")
    assert data.train.features.shape == (3, len(data.feature_names))
    assert data.train.features[:, :6].mean(0).abs().max() < 1e-6
    assert column(data, "test", "workclass=?") == [0, 1]
    assert column(data, "test", "occupation=Sales") == [1, 0]
    assert column(data, "test", "sex=Male") == [0, 1]
    assert "native-country=Peru" not in data.feature_names
    assert [column(data, "test", f"native-country={name}") for name in ("Cuba", "India")] == [[0, 0], [0, 1]]


def test_labels_and_groups(put):
    data = adult(put(), validation=1)
    assert data.test.labels.tolist() == [0, 1]
    assert data.test.groups.tolist() == [0, 1]
    assert data.test.labels.dtype == torch.float32
    assert data.test.groups.dtype == torch.int64
    known = [data.train, data.validation]
    pairs = [pair for part in known for pair in zip(part.labels.tolist(), part.groups.tolist(), strict=True)]
    assert sorted(pairs) == [(0, 1), (0, 1), (1, 0), (1, 1)]


def test_ages_on_the_scale_of_the_people_left_for_training(put):
    data = adult(put(), validation=1)
    scaled = torch.cat([data.train.features[:, 0], data.validation.features[:, 0]]).double().numpy()
    ages = np.array([39, 50, 38, 53])
    for held in range(4):
        rest = np.delete(ages, held)
        order = np.append(rest, ages[held])
        if np.allclose((order - rest.mean()) / rest.std(), scaled, atol=1e-5):
            return
    pytest.fail(f"{scaled} are the standardised ages of no division")


def test_the_division_depends_on_the_seed_alone(put):
    folder = put()
    held = [adult(folder, validation=1, seed=seed).validation.labels.tolist() for seed in range(8)]
    assert held == [adult(folder, validation=1, seed=seed).validation.labels.tolist() for seed in range(8)]
    assert len(set(map(tuple, held))) > 1


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (KNOWN.replace("39, ", ""), ", line 1: expected 15 values, found 14."),
        (KNOWN.replace("\n50,", "\nold,"), ", line 2: expected an integer for age, found 'old'."),
        (KNOWN.replace("Female", "?"), ", line 3: expected Female or Male for sex, found '?'."),
        (KNOWN.replace(">50K", "much"), ", line 2: expected <=50K or >50K for income, found 'much'."),
        ("\n", ": expected one person a line, found nobody."),
    ],
)
def test_faults_have_a_line(put, known, text):
    folder = put(known)
    with pytest.raises(InputError, match=re.escape(f"{folder / 'adult/adult.data.gz'}{text}")):
        adult(folder, validation=1)


@pytest.mark.parametrize("validation", [0, 4])
def test_each_part_needs_somebody(put, validation):
    with pytest.raises(InputError, match=f"validation: expected 1 to 3 people, found {validation}"):
        adult(put(), validation=validation)


def test_the_stand_in_has_the_gap_of_the_true_data():
    data = adult_like(n=50_000)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [30_000, 10_000, 10_000]
    assert data.train.features.shape == (30_000, len(data.feature_names))
    assert data.train.features[:, :4].mean(0).abs().max() < 1e-5
    assert set(data.train.features[:, 4:].unique().tolist()) == {0, 1}
    for part in (data.train, data.validation, data.test):
        rates = [part.labels[part.groups == group].mean().item() for group in (0, 1)]
        assert rates == pytest.approx([0.11, 0.31], abs=0.03)
        assert part.groups.float().mean().item() == pytest.approx(0.67, abs=0.02)
    assert column(data, "train", "sex=Male") == data.train.groups.tolist()


def test_without_the_group_the_stand_in_still_shows_it():
    linear_model = pytest.importorskip("sklearn.linear_model")
    data = adult_like(n=20_000)
    blind = [i for i, name in enumerate(data.feature_names) if not name.startswith("sex=")]
    model = linear_model.LogisticRegression().fit(data.train.features[:, blind].numpy(), data.train.labels.numpy())
    said = model.predict(data.test.features[:, blind].numpy())
    female, male = (said[data.test.groups.numpy() == group].mean() for group in (0, 1))
    assert male - female > 0.08


def test_the_stand_in_depends_on_the_seed_alone():
    assert torch.equal(adult_like(1, 100).test.features, adult_like(1, 100).test.features)
    assert not torch.equal(adult_like(1, 100).test.features, adult_like(2, 100).test.features)


def test_the_stand_in_needs_people():
    with pytest.raises(InputError, match="n: expected at least 50 people, found 49"):
        adult_like(n=49)
