"""The recogniser: an utterance is read the same way in any batch, and gradients stay finite."""

from __future__ import annotations

import re
import sys

import pytest
import torch
from torch import nn

from ferero.errors import InputError, MissingExtraError
from ferero_lab.speech.features import encoder_frames
from ferero_lab.speech.recogniser import SIZES, ChannelNorm, ConformerSize, Recogniser, conformer

pytest.importorskip("transformers")

TINY = ConformerSize(blocks=2, width=16, heads=2, kernel=5, inner=24, channels=4)


@pytest.fixture
def tiny() -> Recogniser:
    torch.manual_seed(0)
    made = Recogniser(TINY, {"zh": 7, "en": 3}, future_steps=2, bins=8)
    for parameter in made.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    return made


def utterances(*lengths: int, bins: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    features = torch.zeros(len(lengths), max(*lengths, 1), bins)
    for row, length in zip(features, lengths, strict=True):
        row[:length] = torch.randn(length, bins, generator=draw)
    return features, torch.tensor(lengths)


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5, 7, 8, 9, 30])
def test_time_is_reduced_by_four(tiny: Recogniser, frames: int) -> None:
    states, short = tiny.encode(*utterances(frames))
    twice = ((frames - 1) // 2 + 1 - 1) // 2 + 1
    assert states.shape == (1, twice, 16)
    assert short.tolist() == [twice] == [encoder_frames(frames)]


def test_padding_and_batch_mates_do_not_matter(tiny: Recogniser) -> None:
    tiny.eval()
    features, lengths = utterances(13, 40, 5, 1)
    together, short = tiny.encode(features, lengths)
    for i, length in enumerate(lengths.tolist()):
        alone, (own,) = tiny.encode(features[i : i + 1, :length], lengths[i : i + 1])
        assert short[i] == own
        torch.testing.assert_close(together[i, :own], alone[0], atol=2e-6, rtol=1e-4)
        assert not together[i, own:].any()


def test_what_lies_after_the_end_is_ignored(tiny: Recogniser) -> None:
    tiny.eval()
    features, lengths = utterances(13, 40)
    noisy = features.clone()
    noisy[0, 13:] = torch.nan
    assert torch.equal(tiny.encode(features, lengths)[0], tiny.encode(noisy, lengths)[0])


def test_training_does_not_mix_utterances_either() -> None:
    torch.manual_seed(0)
    still = conformer(ConformerSize(blocks=2, width=16, heads=2, kernel=5, inner=24, channels=4, dropout=0.0), 8)
    features, lengths = utterances(13, 40)
    mates, _ = still.train()(features, lengths)
    alone, _ = still(features[:1, :13], lengths[:1])
    torch.testing.assert_close(mates[0, :4], alone[0], atol=2e-6, rtol=1e-4)


def test_states_listen_to_the_whole_utterance_and_only_to_it(tiny: Recogniser) -> None:
    tiny.eval()
    features, lengths = utterances(24, 40)
    features.requires_grad_()
    states, _ = tiny.encode(features, lengths)
    (slope,) = torch.autograd.grad(states[0, 2].square().sum(), features)
    assert (slope[0, :24].abs().sum(dim=1) > 0).all()
    assert not slope[0, 24:].any()
    assert not slope[1].any()


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_utterances_without_frames_are_safe(tiny: Recogniser, mode: str) -> None:
    tiny.train(mode == "train")
    states, short = tiny.encode(*utterances(0, 9))
    assert short.tolist() == [0, 3]
    assert not states[0].any()
    (tiny.log_probs(states, "zh").sum() + tiny.log_probs(states, "en").sum()).backward()
    assert all(each.grad.isfinite().all() for each in tiny.parameters() if each.grad is not None)


def test_every_shared_weight_gets_a_gradient(tiny: Recogniser) -> None:
    states, _ = tiny.encode(*utterances(23, 17))
    tiny.log_probs(states, "en")[..., 1].sum().backward()
    for name, parameter in tiny.encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # A bias on all keys shifts all scores of a query alike.
        assert parameter.grad.any() or name.endswith("k_proj.bias"), name


def test_no_batch_norm_is_left(tiny: Recogniser) -> None:
    kinds = [type(module) for module in tiny.modules()]
    assert nn.BatchNorm1d not in kinds
    assert kinds.count(ChannelNorm) == TINY.blocks
    assert not list(tiny.buffers()) or all("inv_freq" in name for name, _ in tiny.named_buffers())


def test_channel_norm_is_a_layer_norm_of_each_frame() -> None:
    values = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
    normed = ChannelNorm(6)(values)
    torch.testing.assert_close(normed.mean(dim=1), torch.zeros(2, 5), atol=1e-6, rtol=0)
    torch.testing.assert_close(normed.var(dim=1, unbiased=False), torch.ones(2, 5), atol=1e-3, rtol=0)


def test_log_probs_are_float32_under_autocast(tiny: Recogniser) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states, _ = tiny.encode(*utterances(23, 17))
        found = tiny.log_probs(states.bfloat16(), "zh")
    assert found.dtype == torch.float32
    assert found.shape == (2, 6, 8)
    torch.testing.assert_close(found.exp().sum(dim=-1), torch.ones(2, 6))


def test_shared_parameters_are_all_but_those_of_the_heads(tiny: Recogniser) -> None:
    shared = {id(each) for each in tiny.encoder_parameters()}
    own = {id(each) for part in (tiny.heads, tiny.contrast) for each in part.parameters()}
    assert shared.isdisjoint(own)
    assert shared | own == {id(each) for each in tiny.parameters()}


def test_the_same_seed_gives_the_same_weights() -> None:
    drawn = []
    for _ in range(2):
        torch.manual_seed(3)
        drawn.append(nn.utils.parameters_to_vector(conformer(TINY, 8).parameters()))
    assert torch.equal(*drawn)


@pytest.mark.parametrize(("name", "low", "high"), [("paper", 57.5e6, 58.5e6), ("small", 0.4e6, 0.5e6)])
def test_sizes(name: str, low: float, high: float) -> None:
    with torch.device("meta"):
        count = sum(each.numel() for each in conformer(SIZES[name]).parameters())
    assert low < count < high


def test_layer_dropout_is_off_unless_asked_for() -> None:
    assert {size.layer_dropout for size in SIZES.values()} == {0.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 15}, "width: expected an even multiple of the 2 heads; found 15; change one of them."),
        ({"kernel": 4}, "kernel: expected an odd number of frames; found 4."),
        ({"blocks": 0}, "blocks: expected at least 1; found 0."),
        ({"dropout": 1.0}, "dropout: expected a share in [0, 1); found 1.0."),
    ],
)
def test_sizes_refused(changes: dict[str, float], message: str) -> None:
    values = {"blocks": 1, "width": 8, "heads": 2, "kernel": 3, "inner": 8, "channels": 2, **changes}
    with pytest.raises(InputError, match=re.escape(message)):
        ConformerSize(**values)


def test_other_refusals(tiny: Recogniser) -> None:
    with pytest.raises(InputError, match=re.escape("bins: expected a multiple of 4; found 10.")):
        conformer(TINY, 10)
    with pytest.raises(InputError, match=re.escape("symbols: expected at least one language; found none.")):
        Recogniser(TINY, {})
    with pytest.raises(InputError, match=re.escape("symbols: expected at least one for 'zh'; found 0.")):
        Recogniser(TINY, {"zh": 0})
    with pytest.raises(InputError, match=re.escape("language: expected one of zh, en; found 'de'.")):
        tiny.log_probs(torch.zeros(1, 2, 16), "de")


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers.models.parakeet", None)
    with pytest.raises(MissingExtraError, match=re.escape('pip install "ferero-lab[speech]"')):
        conformer(TINY)
