"""The three losses against computations of one language and one utterance at a time."""

from dataclasses import replace

import pytest
import torch
from tests.lab.speech.tiny import CPU, tiny_model, tiny_sets
from torch.nn.functional import ctc_loss

import ferero
from ferero_lab.speech.augment import blank, fixed_hide
from ferero_lab.speech.batches import batches_of
from ferero_lab.speech.experiment.losses import NAMES, Sums, draw, held_out_sums, spacing_of, training_losses

pytest.importorskip("transformers")
pytest.importorskip("soundfile")


@pytest.fixture(scope="module")
def sets():
    return tiny_sets()


@pytest.fixture
def model(sets):
    return tiny_model(sets).eval()


def batches(sets, seed=0):
    return {language: stream.next() for language, stream in sets.streams(8.0, seed, CPU).items()}


def drawn(sets, *, seed=0, tempo=0.2, pitch=0.1):
    generator = torch.Generator().manual_seed(seed)
    return draw(batches(sets, seed), generator, 6, tempo=tempo, pitch=pitch)


def nats(model, features, lengths, language, batch):
    """CTC's losses, one utterance at a time, by torch itself."""
    found = []
    for row, frames in enumerate(lengths.tolist()):
        states, count = model.encode(features[row : row + 1, :frames], lengths[row : row + 1])
        target = batch.targets[row, : int(batch.target_lengths[row])]
        log_probs = model.log_probs(states, language)[0]
        found.append(ctc_loss(log_probs, target, count[0], torch.tensor(len(target)), reduction="sum"))
    return torch.stack(found)


def test_they_are_those_of_each_language_alone(sets, model):
    given = drawn(sets)
    losses, counts = training_losses(model, given)
    totals, numbers = [], []
    for language, batch in given.batches.items():
        hidden = given.hidden[language]
        hazy = blank(batch.features, hidden)
        states, lengths = model.encode(hazy, batch.lengths)
        total, number = model.contrast(states, batch.features, lengths, hidden)
        totals.append(total.sum())
        numbers.append(number.sum())
        expected = nats(model, hazy, batch.lengths, language, batch).sum() / batch.target_lengths.sum()
        index = NAMES.index(language)
        torch.testing.assert_close(losses[index], expected, atol=1e-4, rtol=1e-4)
        assert counts[index] == batch.target_lengths.sum()
    torch.testing.assert_close(losses[0], sum(totals) / sum(numbers), atol=1e-4, rtol=1e-4)
    # Words of 0.4 to 0.9 s, that is fewer than 50 frames of the encoder, have one stretch of six frames each.
    assert counts[0] == sum(numbers) == 6 * sum(len(batch) for batch in given.batches.values())


def is_taught(parameters):
    return any(each.grad is not None and bool(each.grad.any()) for each in parameters)


def test_every_loss_teaches_its_own_head_and_the_encoder(sets, model):
    losses, _ = training_losses(model, drawn(sets))
    heads = {"cpc": model.contrast, "zh": model.heads["zh"], "en": model.heads["en"]}
    for index, name in enumerate(NAMES):
        model.zero_grad()
        losses[index].backward(retain_graph=True)
        assert {key: is_taught(head.parameters()) for key, head in heads.items()} == {key: key == name for key in heads}
        assert is_taught(model.encoder_parameters())


def test_the_drawing_repeats_with_its_generator_and_leaves_the_batches_alone(sets):
    one, two, other = (drawn(sets, seed=seed) for seed in (0, 0, 1))
    plain = batches(sets)
    for language, batch in one.batches.items():
        assert torch.equal(batch.features, two.batches[language].features)
        assert torch.equal(one.hidden[language].negatives, two.hidden[language].negatives)
        assert not torch.equal(batch.lengths, plain[language].lengths)
        assert torch.equal(batch.targets, plain[language].targets)
        mates = other.batches[language].features
        assert mates.shape != batch.features.shape or not torch.equal(mates, batch.features)


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("why", ["too long", "empty"])
def test_a_language_with_nothing_to_learn_counts_nothing(sets, model, language, why):
    given = drawn(sets)
    batch = given.batches[language]
    if why == "empty":
        useless = replace(batch, target_lengths=torch.zeros_like(batch.target_lengths))
    else:
        targets = torch.ones(len(batch), 300, dtype=torch.int64)
        useless = replace(batch, targets=targets, target_lengths=torch.full((len(batch),), 300))
    losses, counts = training_losses(model, replace(given, batches={**given.batches, language: useless}))
    usual, _ = training_losses(model, given)
    index = NAMES.index(language)
    assert losses[index] == counts[index] == 0
    others = [i for i in range(3) if i != index]
    assert torch.equal(losses[others], usual[others])
    assert (counts[others] > 0).all()
    steer = ferero.Steer(ferero.Preference(ferero.objectives(*NAMES)), ferero.LinearScalarization())
    for _ in range(3):
        steer(*training_losses(model, given)).backward()
    before = steer.losses[index].item()
    model.zero_grad()
    steer(losses, counts).backward()
    assert steer.losses[index].item() == before
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not is_taught(model.heads[language].parameters())


def test_held_out_sums_do_not_depend_on_the_batches(sets, model):
    model.train()
    whole = held_out_sums(model, sets.held_out("dev", CPU))
    assert model.training
    model.eval()
    pieces = held_out_sums(model, {name: batches_of(sets.prepared[name, "dev"], 1) for name in ("zh", "en")})
    for name in NAMES:
        torch.testing.assert_close(whole.total[name], pieces.total[name], atol=1e-3, rtol=1e-4)
        assert torch.equal(whole.count[name], pieces.count[name])
        assert whole.total[name].dtype == torch.float64
    assert len(whole.total["zh"]) == len(sets.prepared["zh", "dev"])
    assert len(whole.total["cpc"]) == len(whole.total["zh"]) + len(whole.total["en"])
    assert held_out_sums(model, sets.held_out("dev", CPU)).means() == whole.means()


def test_held_out_losses_hide_nothing_from_ctc(sets, model):
    found = held_out_sums(model, sets.held_out("dev", CPU))
    for language, several in sets.held_out("dev", CPU).items():
        losses = torch.cat([nats(model, b.features, b.lengths, language, b) for b in several])
        torch.testing.assert_close(found.total[language], losses.detach().double(), atol=1e-3, rtol=1e-4)
        assert found.count[language].sum() == sum(map(len, sets.prepared[language, "dev"].targets))
        assert found.mean(language) == pytest.approx((losses.sum() / found.count[language].sum()).item(), rel=1e-4)
    batch = sets.held_out("dev", CPU)["zh"][0]
    hidden = fixed_hide(batch.lengths)
    states, lengths = model.encode(blank(batch.features, hidden), batch.lengths)
    total, _ = model.contrast(states, batch.features, lengths, hidden)
    torch.testing.assert_close(found.total["cpc"][: len(batch)], total.detach().double(), atol=1e-3, rtol=1e-4)


def sums(n, seed=0):
    """Utterances of 1 to 40 symbols whose loss grows with them, and with chance."""
    generator = torch.Generator().manual_seed(seed)
    count = torch.randint(1, 41, (n,), generator=generator)
    total = count * (1.5 + 0.5 * torch.randn(n, generator=generator).double()) + torch.rand(n, generator=generator)
    return Sums(dict.fromkeys(NAMES, total), dict.fromkeys(NAMES, count))


def test_standard_error_is_that_of_a_bootstrap():
    found = sums(200)
    total, count = found.total["zh"], found.count["zh"]
    again = torch.randint(0, 200, (4000, 200), generator=torch.Generator().manual_seed(1))
    spread = (total[again].sum(dim=1) / count[again].sum(dim=1)).std()
    assert found.standard_error("zh") == pytest.approx(spread.item(), rel=0.06)
    # A mean of the utterances' own means would be another figure, and its error too small.
    assert found.mean("zh") != pytest.approx((total / count).mean().item(), rel=1e-3)


def test_standard_error_shrinks_with_the_root_and_is_0_for_equal_losses():
    ratio = sums(400).standard_error("en") / sums(6400).standard_error("en")
    assert ratio == pytest.approx(4, rel=0.15)
    count = torch.tensor([1, 5, 9])
    equal = Sums(dict.fromkeys(NAMES, 2.0 * count.double()), dict.fromkeys(NAMES, count))
    assert equal.standard_error("cpc") == 0
    assert equal.means() == dict.fromkeys(NAMES, 2.0)


def test_one_utterance_has_no_standard_error():
    assert sums(1).standard_error("zh") is None


@pytest.mark.parametrize("steps", [1, 2, 6])
def test_a_quarter_of_the_time_is_hidden_in_training_and_on_held_out_sets(sets, steps):
    model = tiny_model(sets, future=steps).eval()
    several = sets.held_out("dev", CPU)
    lengths = torch.cat([(batch.lengths + 3) // 4 for batches in several.values() for batch in batches])
    stretches = (lengths // (4 * steps + 1)).clamp(min=1) * (lengths >= steps + 2)
    assert held_out_sums(model, several).count["cpc"].tolist() == (steps * stretches).tolist()
    given = draw(batches(sets), torch.Generator().manual_seed(0), steps, tempo=0.0, pitch=0.0)
    for language, batch in given.batches.items():
        frames = (batch.lengths + 3) // 4
        expected = (frames // spacing_of(steps)).clamp(min=1) * (frames >= steps + 2)
        assert given.hidden[language].valid.sum(dim=1).tolist() == expected.tolist()
