"""SpeechBatches: each utterance once, little padding, exact resume."""

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.speech.batches import SpeechBatches, batches_of
from ferero_lab.speech.corpora.corpus import Utterance
from ferero_lab.speech.feature_store import stored
from ferero_lab.speech.prepare import Prepared


def made(count=60, seed=0, longest=200):
    """A set with random features; the targets of utterance i are all i + 1."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(20, longest + 1, (count,), generator=generator).tolist()
    store = stored(
        None, "", 4, lambda: [(str(i), torch.randn(n, 4, generator=generator)) for i, n in enumerate(lengths)]
    )
    targets = [torch.full((1 + i % 7,), i + 1) for i in range(count)]
    utterances = tuple(Utterance(str(i), "en", "train", "me", "", (), bytes) for i in range(count))
    return Prepared(store, targets, utterances)


def check(batch, prepared):
    assert batch.features.isfinite().all()
    assert batch.features.dtype == torch.float32
    for row, index in enumerate(batch.index.tolist()):
        length, symbols = int(batch.lengths[row]), int(batch.target_lengths[row])
        assert torch.equal(batch.features[row, :length], prepared.store[index])
        assert not batch.features[row, length:].any()
        assert torch.equal(batch.targets[row, :symbols], prepared.targets[index])
        assert not batch.targets[row, symbols:].any()
    assert batch.features.shape[1] == batch.lengths.max()
    assert batch.targets.shape[1] == batch.target_lengths.max()


def same(one, two):
    return all(torch.equal(getattr(one, name), getattr(two, name)) for name in ("features", "targets", "index"))


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_epoch_has_each_utterance_once_within_the_budget(resident, shuffle):
    prepared = made()
    stream = SpeechBatches(prepared, 1000, seed=3, shuffle=shuffle, resident=resident)
    for epoch in range(3):
        assert stream.epoch == epoch
        seen = []
        while stream.epoch == epoch:
            batch = stream.next()
            check(batch, prepared)
            assert len(batch) * batch.features.shape[1] <= 1000
            seen += batch.index.tolist()
        assert sorted(seen) == list(range(60))


def test_little_of_a_batch_is_padding():
    prepared = made(count=600)
    stream = SpeechBatches(prepared, 4000, seed=0)
    batches = [stream.next() for _ in range(stream.per_epoch)]
    padded = sum(batch.features.shape[0] * batch.features.shape[1] for batch in batches)
    assert int(prepared.lengths.sum()) / padded > 0.92
    assert len(batches) < 1.15 * int(prepared.lengths.sum()) / 4000 + 1


def test_epochs_differ_and_the_seed_decides():
    def first(seed):
        stream = SpeechBatches(made(), 1000, seed=seed)
        return [next(stream).index.tolist() for _ in range(2 * stream.per_epoch)]

    assert first(0) == first(0)
    assert first(0) != first(1)
    half = len(first(0)) // 2
    assert first(0)[:half] != first(0)[half:]


@pytest.mark.parametrize("before", [0, 1, 7, 30])
def test_a_stream_goes_on_exactly_where_another_stopped(before):
    prepared = made()
    stream, other = SpeechBatches(prepared, 1000, seed=5), SpeechBatches(prepared, 1000, seed=5)
    for _ in range(before):
        stream.next()
    state = stream.state_dict()
    other.next()
    other.load_state_dict(state)
    assert other.epoch == stream.epoch
    assert all(same(stream.next(), other.next()) for _ in range(25))


def test_the_state_of_another_stream_is_refused():
    state = SpeechBatches(made(), 1000, seed=0).state_dict()
    with pytest.raises(InputError, match=r"state: expected that of a stream with .*'seed': 1.*, found .*'seed': 0"):
        SpeechBatches(made(), 1000, seed=1).load_state_dict(state)


def test_an_utterance_over_the_budget_is_a_batch_alone():
    prepared = made(count=5)
    stream = SpeechBatches(prepared, 1, seed=0)
    assert stream.per_epoch == 5
    check(stream.next(), prepared)


def test_evaluation_has_every_utterance_once_from_short_to_long():
    prepared = made()
    batches = batches_of(prepared, 1000)
    for batch in batches:
        check(batch, prepared)
    assert sorted(int(i) for batch in batches for i in batch.index) == list(range(60))
    lengths = [int(length) for batch in batches for length in batch.lengths]
    assert lengths == sorted(lengths)
    assert batches_of(prepared.subset([]), 1000) == []


def test_a_subset_is_gathered_from_the_features_it_shares():
    prepared = made().subset([40, 3, 17])
    stream = SpeechBatches(prepared, 10**6, seed=0)
    batch = stream.next()
    check(batch, prepared)
    assert sorted(batch.index.tolist()) == [0, 1, 2]


def test_arguments_are_checked():
    with pytest.raises(InputError, match="prepared: expected at least one utterance, found none"):
        SpeechBatches(made().subset([]), 1000, seed=0)
    with pytest.raises(InputError, match="frames_per_batch: expected a positive number of frames, found 0"):
        batches_of(made(), 0)
