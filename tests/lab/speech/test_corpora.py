"""Corpora are read where they lie; whatever is wrong with a recording is named, and the rest is taken."""

import gzip
import io
import pickle
import re
import tarfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ferero.errors import InputError
from ferero_lab.speech.corpora import (
    find_corpora,
    read_aishell,
    read_librispeech,
    read_listed,
    waveform,
)

soundfile = pytest.importorskip("soundfile")

HEADER = "utt\tfile\tspeaker\tlang\tsplit\tseconds\ttext\tpinyin"


def sound(n=160, container="WAV"):
    file = io.BytesIO()
    soundfile.write(file, 0.1 * np.sin(np.arange(n)), 16_000, format=container)
    return file.getvalue()


def write_tar(path, files):
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def write_listing(path, *lines, header=HEADER):
    path.write_text("\n".join([header, *("\t".join(line) for line in lines)]) + "\n", encoding="utf-8")
    return path


def line(utt, file=None, lang="en", split="train", text="YES", pinyin=""):
    return (utt, file or f"{utt}.wav", "s1", lang, split, "0.01", text, pinyin)


def write_pair(folder, name, *lines):
    folder.mkdir(parents=True, exist_ok=True)
    write_tar(folder / f"{name}.tar", {each[1]: sound() for each in lines})
    write_listing(folder / f"{name}.tsv", *lines)


def error(message):
    return pytest.raises(InputError, match=f"^{re.escape(message)}$")


class TestListed:
    def test_what_is_listed_is_what_is_read(self, tmp_path):
        files = {"a.wav": sound(100), "./b.wav": sound(200), "c.wav": sound(300)}
        lines = [
            line("c"),
            line("a", lang="zh", split="dev", text="大山", pinyin="da4 shan1"),
            line("b", split="test", text='SAY "NO'),
        ]
        corpus = read_listed(write_tar(tmp_path / "x.tar", files), write_listing(tmp_path / "x.tsv", *lines))
        assert corpus.name == "x"
        assert len(corpus.skipped) == 0
        found = [(each.name, each.language, each.split, each.text, each.syllables) for each in corpus.utterances]
        assert found == [
            ("c", "en", "train", "YES", ()),
            ("a", "zh", "dev", "大山", ("da4", "shan1")),
            ("b", "en", "test", 'SAY "NO', ()),
        ]
        assert [each.read() for each in corpus.utterances] == [files["c.wav"], files["a.wav"], files["./b.wav"]]
        assert [len(waveform(each)) for each in corpus.utterances] == [300, 100, 200]

    def test_threads_and_processes_may_share_an_utterance(self, tmp_path):
        files = {f"{i}.wav": sound(50 + i) for i in range(40)}
        tar = write_tar(tmp_path / "x.tar", files)
        corpus = read_listed(tar, write_listing(tmp_path / "x.tsv", *(line(str(i)) for i in range(40))))
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda each: each.read(), corpus.utterances)) == list(files.values())
        assert pickle.loads(pickle.dumps(corpus.utterances[7])).read() == files["7.wav"]

    def test_whatever_cannot_be_taken_is_named_with_its_reason(self, tmp_path):
        files = {name: sound() for name in ("good.wav", "mute.wav", "klingon.wav", "eval.wav", "unlisted.wav")}
        lines = [
            line("good"),
            line("mute", text="  "),
            line("gone"),
            line("hollow"),
            line("klingon", lang="tlh"),
            line("eval", split="eval"),
            line("good", text="NO"),
        ]
        tar = write_tar(tmp_path / "x.tar", files | {"hollow.wav": b""})
        corpus = read_listed(tar, write_listing(tmp_path / "x.tsv", *lines))
        assert [(each.name, each.text) for each in corpus.utterances] == [("good", "YES")]
        assert corpus.skipped.names == {
            "no transcript": ("mute", "unlisted.wav"),
            "no recording": ("gone",),
            "empty recording": ("hollow",),
            "unknown language": ("klingon",),
            "unknown split": ("eval",),
            "name used before": ("good",),
        }

    def test_pinyin_is_optional_and_line_ends_and_marks_of_windows_do_no_harm(self, tmp_path):
        text = "\ufeff" + HEADER.removesuffix("\tpinyin") + "\r\na\ta.wav\ts\ten\ttrain\t1\tTWO\u2028LINES\r\n\r\n"
        (tmp_path / "x.tsv").write_bytes(text.encode())
        corpus = read_listed(write_tar(tmp_path / "x.tar", {"a.wav": sound()}), tmp_path / "x.tsv")
        assert [(each.text, each.syllables) for each in corpus.utterances] == [("TWO\u2028LINES", ())]

    def test_a_missing_column_is_named(self, tmp_path):
        listing = write_listing(tmp_path / "x.tsv", header="utt\tfile\tspeaker\tlang\tseconds")
        with error(
            f"{listing}, line 1: expected the columns utt, file, speaker, lang, split, seconds, text between tabs, "
            "found no split, text. Name the columns in the first line."
        ):
            read_listed(write_tar(tmp_path / "x.tar", {}), listing)

    def test_a_line_with_another_number_of_fields_is_named(self, tmp_path):
        listing = write_listing(tmp_path / "x.tsv", line("a"), ("b", "b.wav"))
        with error(
            f"{listing}, line 3: expected 8 fields between tabs, as the first line has, found 2. "
            "Mend the line or remove it."
        ):
            read_listed(write_tar(tmp_path / "x.tar", {}), listing)

    def test_another_encoding_is_refused(self, tmp_path):
        listing = tmp_path / "x.tsv"
        listing.write_bytes("大".encode("gbk"))
        with error(f"{listing}: expected text in UTF-8, found something else at byte 0. Save it as UTF-8."):
            read_listed(write_tar(tmp_path / "x.tar", {}), listing)

    def test_files_that_are_not_there_are_named(self, tmp_path):
        tar, listing = tmp_path / "x.tar", tmp_path / "x.tsv"
        with error(f"{tar}: expected a tar of recordings, found none to read (No such file or directory)."):
            read_listed(tar, listing)
        write_tar(tar, {})
        with error(f"{listing}: expected a text file, found none to read (No such file or directory)."):
            read_listed(tar, listing)

    @pytest.mark.parametrize(
        "spoil", [gzip.compress, lambda data: data[:3000], lambda data: b""], ids=["packed", "cut off", "empty"]
    )
    def test_a_tar_that_cannot_be_read_in_place_is_refused(self, tmp_path, spoil):
        tar = write_tar(tmp_path / "x.tar", {"a.wav": sound(5000)})
        tar.write_bytes(spoil(tar.read_bytes()))
        with pytest.raises(InputError, match=r"expected an uncompressed tar, .* Unpack a compressed one with gunzip"):
            read_listed(tar, write_listing(tmp_path / "x.tsv", line("a")))


def write_librispeech(home, subset, speaker="19", chapter="198", texts=("ONE", "TWO")):
    folder = home / "LibriSpeech" / subset / speaker / chapter
    folder.mkdir(parents=True)
    names = [f"{speaker}-{chapter}-{i:04d}" for i in range(len(texts))]
    for name in names:
        (folder / f"{name}.flac").write_bytes(sound(container="FLAC"))
    lines = "".join(f"{name} {text}\n" for name, text in zip(names, texts, strict=True))
    (folder / f"{speaker}-{chapter}.trans.txt").write_text(lines, encoding="utf-8")
    return folder


class TestLibriSpeech:
    @pytest.fixture
    def home(self, tmp_path):
        for speaker, subset in enumerate(("train-clean-100", "dev-clean", "test-clean")):
            write_librispeech(tmp_path, subset, speaker=str(speaker + 1))
        return tmp_path

    @pytest.mark.parametrize("inside", ["", "LibriSpeech"])
    def test_it_is_read_as_distributed(self, home, inside):
        corpus = read_librispeech(home / inside)
        assert [(each.name, each.split, each.speaker, each.text) for each in corpus.utterances] == [
            ("1-198-0000", "train", "1", "ONE"),
            ("1-198-0001", "train", "1", "TWO"),
            ("2-198-0000", "dev", "2", "ONE"),
            ("2-198-0001", "dev", "2", "TWO"),
            ("3-198-0000", "test", "3", "ONE"),
            ("3-198-0001", "test", "3", "TWO"),
        ]
        assert {each.language for each in corpus.utterances} == {"en"}
        assert len(corpus.skipped) == 0
        assert len(waveform(corpus.utterances[3])) == 160
        assert len(pickle.loads(pickle.dumps(corpus.utterances[3])).read()) > 0

    def test_whatever_cannot_be_taken_is_named_with_its_reason(self, home):
        folder = write_librispeech(home, "train-clean-100", "7", "1", texts=("ONE", "", "THREE", "FOUR"))
        (folder / "7-1-0002.flac").write_bytes(b"")
        (folder / "7-1-0003.flac").unlink()
        (folder / "7-1-0009.flac").write_bytes(sound())
        bare = write_librispeech(home, "train-clean-100", "8", "1", texts=("ONE",))
        (bare / "8-1.trans.txt").unlink()
        write_librispeech(home, "dev-clean", "7", "1", texts=("ONE",))
        corpus = read_librispeech(home)
        assert corpus.skipped.names == {
            "no transcript": ("7-1-0001", "7-1-0009", "8-1-0000"),
            "empty recording": ("7-1-0002",),
            "no recording": ("7-1-0003",),
            "name used before": ("7-1-0000",),
        }
        assert [each.split for each in corpus.utterances if each.speaker == "7"] == ["train"]

    def test_other_subsets_may_be_named(self, home):
        write_librispeech(home, "train-other-500", speaker="9")
        corpus = read_librispeech(home, {"train-other-500": "train"})
        assert [each.speaker for each in corpus.utterances] == ["9", "9"]

    def test_a_missing_subset_is_named(self, home):
        with error(
            f"folder: expected train-clean-360 with <speaker>/<chapter>/*.flac in {home / 'LibriSpeech'}, found none. "
            "Unpack that part of LibriSpeech there, or leave it out of splits."
        ):
            read_librispeech(home, {"train-clean-360": "train"})

    def test_an_unknown_split_is_refused(self, home):
        with error("splits: expected train, dev, test, found 'valid'."):
            read_librispeech(home, {"dev-clean": "valid"})


def write_aishell(home):
    home = home / "data_aishell"
    lines = []
    for i, split in enumerate(("train", "dev", "test")):
        folder = home / "wav" / split / f"S000{i}"
        folder.mkdir(parents=True)
        (folder / f"BAC009S000{i}W0001.wav").write_bytes(sound())
        lines.append(f"BAC009S000{i}W0001 大山 大  雨\n")
    (home / "transcript").mkdir()
    (home / "transcript/aishell_transcript_v0.8.txt").write_text("".join(lines), encoding="utf-8")
    return home


class TestAishell:
    @pytest.mark.parametrize("inside", ["", "data_aishell"])
    def test_it_is_read_as_distributed_without_spaces_between_words(self, tmp_path, inside):
        write_aishell(tmp_path)
        corpus = read_aishell(tmp_path / inside)
        assert [(each.name, each.split, each.speaker, each.text) for each in corpus.utterances] == [
            ("BAC009S0000W0001", "train", "S0000", "大山大雨"),
            ("BAC009S0001W0001", "dev", "S0001", "大山大雨"),
            ("BAC009S0002W0001", "test", "S0002", "大山大雨"),
        ]
        assert {each.language for each in corpus.utterances} == {"zh"}
        assert len(corpus.skipped) == 0
        assert len(waveform(corpus.utterances[0])) == 160

    def test_whatever_cannot_be_taken_is_named_with_its_reason(self, tmp_path):
        home = write_aishell(tmp_path)
        for name, data in {"unwritten": sound(), "wordless": sound(), "hollow": b""}.items():
            (home / "wav/train/S0000" / f"{name}.wav").write_bytes(data)
        (home / "wav/dev/S0001/BAC009S0000W0001.wav").write_bytes(sound())
        with (home / "transcript/aishell_transcript_v0.8.txt").open("a", encoding="utf-8") as file:
            file.write("hollow 大\n\ngone 大\nwordless\nBAC009S0002W0001 小\n")
        corpus = read_aishell(home)
        assert len(corpus.utterances) == 3
        assert corpus.utterances[2].text == "大山大雨"
        assert corpus.skipped.names == {
            "name used before": ("BAC009S0002W0001", "BAC009S0000W0001"),
            "empty recording": ("hollow",),
            "no transcript": ("unwritten", "wordless"),
            "no recording": ("gone",),
        }

    def test_packed_speakers_are_to_be_unpacked(self, tmp_path):
        home = write_aishell(tmp_path)
        for speaker in ("S0000", "S0765", "S0766"):
            (home / f"wav/{speaker}.tar.gz").write_bytes(b"")
        with error(
            f"folder: expected the recordings of every speaker in {home / 'wav'}, found 2 still packed (S0765.tar.gz "
            'first). Unpack them there: for each in *.tar.gz; do tar -xzf "$each"; done'
        ):
            read_aishell(home)

    def test_missing_texts_and_splits_are_named(self, tmp_path):
        home = write_aishell(tmp_path)
        (home / "wav/dev/S0001/BAC009S0001W0001.wav").unlink()
        with error(f"folder: expected wav/dev/<speaker>/*.wav in {home}, found none. Unpack AISHELL-1 there."):
            read_aishell(home)
        (home / "transcript/aishell_transcript_v0.8.txt").unlink()
        with error(
            f"folder: expected transcript/aishell_transcript_v0.8.txt in {home}, found none. "
            "Name the folder data_aishell, or the one it lies in."
        ):
            read_aishell(home)


class TestFind:
    @pytest.fixture(autouse=True)
    def no_folder(self, monkeypatch):
        monkeypatch.delenv("FERERO_DATA", raising=False)

    @pytest.mark.parametrize("place", [".", "speech"])
    def test_pairs_are_found_in_the_folder_and_in_speech(self, tmp_path, place):
        write_pair(tmp_path / place, "librispeech-4spk", line("a"))
        write_pair(tmp_path / place, "aishell-2spk", line("b", lang="zh", text="大"))
        write_pair(tmp_path / place, "dspspeech20-32spk", line("c"), line("d", lang="zh", text="大"))
        sentences, words = find_corpora(tmp_path, "sentences"), find_corpora(tmp_path, "words")
        assert [each.name for each in sentences.utterances] == ["a", "b"]
        assert sentences.name == "librispeech-4spk + aishell-2spk"
        assert [each.name for each in words.utterances] == ["c", "d"]

    def test_full_corpora_are_preferred_when_both_are_there(self, tmp_path):
        write_pair(tmp_path, "librispeech-4spk", line("a"))
        write_pair(tmp_path, "aishell-2spk", line("b", lang="zh", text="大"))
        for subset in ("train-clean-100", "dev-clean", "test-clean"):
            write_librispeech(tmp_path, subset, speaker=subset)
        assert find_corpora(tmp_path, "sentences").name == "librispeech-4spk + aishell-2spk"
        write_aishell(tmp_path / "speech")
        assert find_corpora(tmp_path, "sentences").name == "LibriSpeech + AISHELL-1"

    def test_a_full_corpus_stands_in_for_a_missing_pair(self, tmp_path):
        write_pair(tmp_path, "librispeech-4spk", line("a"))
        write_aishell(tmp_path)
        assert find_corpora(tmp_path, "sentences").name == "librispeech-4spk + AISHELL-1"

    def test_what_was_left_out_of_either_is_kept(self, tmp_path):
        write_pair(tmp_path, "librispeech-4spk", line("a"), line("x", text=""))
        write_pair(tmp_path, "aishell-2spk", line("b", lang="zh", text="大"), line("y", lang="zh", text=""))
        assert find_corpora(tmp_path, "sentences").skipped.names == {"no transcript": ("x", "y")}

    def test_the_environment_names_the_folder(self, tmp_path, monkeypatch):
        write_pair(tmp_path, "dspspeech20-32spk", line("c"))
        monkeypatch.setenv("FERERO_DATA", str(tmp_path))
        assert len(find_corpora(None, "words").utterances) == 1

    def test_what_is_missing_is_named(self, tmp_path):
        write_pair(tmp_path, "librispeech-4spk", line("a"))
        with error(
            f"{tmp_path}: expected aishell-2spk.tar and aishell-2spk.tsv, or the folder data_aishell with wav and "
            "transcript, found none there or in its sub-folder speech. Put them there, or name another folder with "
            "--data FOLDER or FERERO_DATA; recordings are not downloaded."
        ):
            find_corpora(tmp_path, "sentences")
        (tmp_path / "librispeech-4spk.tsv").unlink()
        with pytest.raises(
            InputError, match=r"expected librispeech-4spk\.tar and librispeech-4spk\.tsv, or the folder"
        ):
            find_corpora(tmp_path, "sentences")
        with pytest.raises(InputError, match=r"expected dspspeech20-32spk\.tar and dspspeech20-32spk\.tsv, found none"):
            find_corpora(tmp_path, "words")

    def test_no_folder_at_all(self, tmp_path, monkeypatch):
        with error(
            "words: expected a folder with recordings, found none named. Name it with --data FOLDER or FERERO_DATA; "
            "recordings are not downloaded."
        ):
            find_corpora(None, "words")
        with error(f"folder: expected a folder with recordings, found no folder at {tmp_path / 'no'}."):
            find_corpora(tmp_path / "no", "words")
        monkeypatch.setenv("FERERO_DATA", str(tmp_path / "no"))
        with error(f"FERERO_DATA: expected a folder with recordings, found no folder at {tmp_path / 'no'}."):
            find_corpora(None, "words")

    def test_an_unknown_kind_is_refused(self, tmp_path):
        with error("which: expected one of sentences, words, found 'songs'."):
            find_corpora(tmp_path, "songs")
