"""Songs and six emotions, from files or made up."""

import re

import numpy as np
import pytest
import torch

from ferero.errors import InputError
from ferero_lab.data import emotions, emotions_like
from ferero_lab.data.emotions import EMOTIONS

from .conftest import write


def arff(rows, labels=EMOTIONS):
    names = [f"@attribute x{i} numeric" for i in range(72)] + [f"@attribute {name} {{0,1}}" for name in labels]
    data = [",".join([*(f"{x:.6f}" for x in row[:72]), *(str(int(x)) for x in row[72:])]) for row in rows]
    return "\n".join(["@relation songs", *names, "@data", *data]).encode()


@pytest.fixture
def songs(tmp_path, register):
    """The rows of a training file of 30 songs and of a test file of 12, written to a folder."""
    generator = np.random.default_rng(0)
    rows = np.hstack([3 + 2 * generator.standard_normal((42, 72)), generator.random((42, 6)) < 0.3]).round(6)
    rows[:, 5] = 7  # a constant feature
    for name, some in (("train", rows[:30]), ("test", rows[30:])):
        register(f"emotions/emotions-{name}.arff", arff(some))
        write(tmp_path, f"emotions/emotions-{name}.arff", arff(some))
    return tmp_path, rows


def test_features_are_standardised_by_the_training_songs(songs):
    folder, rows = songs
    data = emotions(folder)
    assert (len(data.train), len(data.validation), len(data.test)) == (30, 0, 12)
    assert data.label_names == EMOTIONS
    assert data.feature_names == tuple(f"x{i}" for i in range(72))
    mean, deviation = rows[:30, :72].mean(0), rows[:30, :72].std(0)
    deviation[5] = 1
    for part, some in ((data.train, rows[:30]), (data.test, rows[30:])):
        assert part.features.dtype == part.labels.dtype == torch.float32
        assert np.allclose(part.features, (some[:, :72] - mean) / deviation, atol=1e-5)
        assert np.array_equal(part.labels, some[:, 72:])
    assert not data.train.features[:, 5].any()


def test_validation_songs_are_taken_from_training_and_do_not_set_the_scale(songs):
    folder, rows = songs
    data = emotions(folder, validation=10, seed=1)
    assert (len(data.train), len(data.validation), len(data.test)) == (20, 10, 12)
    assert data.train.features.mean(0).abs().max() < 1e-6
    assert data.validation.features.mean(0).abs().max() > 0.1
    every = torch.cat([data.train.labels, data.validation.labels])
    assert every.sum(0).tolist() == rows[:30, 72:].sum(0).tolist()
    again = emotions(folder, validation=10, seed=1)
    assert torch.equal(again.validation.features, data.validation.features)
    assert not torch.equal(emotions(folder, validation=10, seed=2).validation.features, data.validation.features)


def test_another_table_is_refused(songs, register):
    folder, rows = songs
    name = "emotions/emotions-test.arff"
    content = arff(rows[30:], labels=("bored", *EMOTIONS[1:]))
    register(name, content)
    write(folder, name, content)
    text = f"{folder / name}: expected 72 features and then amazed-suprised, happy-pleased"
    with pytest.raises(InputError, match=re.escape(text) + ".* that end with bored, happy-pleased"):
        emotions(folder)


@pytest.mark.parametrize("make", [emotions_like, lambda **options: emotions_like(3, **options)])
def test_too_many_songs_set_aside(make):
    with pytest.raises(InputError, match="validation: expected 0 to 390 of the training songs, found 391"):
        make(validation=391)


def test_the_stand_in_has_the_shapes_and_shares_of_the_true_data():
    data = emotions_like()
    assert data.train.features.shape == (391, 72)
    assert data.test.features.shape == (202, 72)
    assert data.train.labels.shape == (391, 6)
    assert len(data.feature_names) == 72
    assert data.label_names == EMOTIONS
    assert data.train.features.mean(0).abs().max() < 1e-5
    every = torch.cat([data.train.labels, data.test.labels])
    assert every.sum(0).tolist() == [173, 166, 264, 148, 168, 189]
    assert len(emotions_like(validation=91).train) == 300


def test_the_stand_in_depends_on_the_seed_alone():
    assert torch.equal(emotions_like(1).test.features, emotions_like(1).test.features)
    assert not torch.equal(emotions_like(1).test.features, emotions_like(2).test.features)


@pytest.mark.parametrize("seed", range(3))
def test_the_labels_of_the_stand_in_hang_together_and_can_be_learned(seed):
    linear_model = pytest.importorskip("sklearn.linear_model")
    data = emotions_like(seed)
    related = np.corrcoef(data.train.labels.numpy().T)
    calm, quiet, sad, angry = 2, 3, 4, 5
    assert related[quiet, sad] > 0.2
    assert related[calm, angry] < -0.2
    for label in range(6):
        train, test = (part.labels[:, label].numpy() for part in (data.train, data.test))
        model = linear_model.LogisticRegression(C=0.01).fit(data.train.features.numpy(), train)
        said = model.predict_proba(data.test.features.numpy())[np.arange(len(test)), test.astype(int)]
        share = test.mean()
        entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
        assert 0.2 < -np.log(said).mean() < entropy - 0.03
