"""The quick run without recordings, from end to end: it hears its words, and the constraints move the losses."""

import pytest

from ferero_lab.experiments.experiment import Settings
from ferero_lab.experiments.run_folder import RunFolder
from ferero_lab.experiments.runner import run_experiment
from ferero_lab.speech.experiment import EXPERIMENT
from ferero_lab.speech.experiment.parts import runs_of
from ferero_lab.speech.experiment.plan import Levels, read_plan

pytest.importorskip("transformers")
pytest.importorskip("soundfile")
pytest.importorskip("jiwer")

SETTINGS = Settings(mode="quick")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return run_experiment(EXPERIMENT, SETTINGS, tmp_path_factory.mktemp("quick") / "run")


@pytest.fixture(scope="module")
def found(done):
    place = RunFolder(done.folder)
    kept = {key: place.kept(key) for key in place.part_keys()}
    return {"start": kept["pretrain-0"], **{name: runs_of(name, kept)[0] for name in ("ls", "ferero")}}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["start", "ls", "ferero"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_words_of_an_unseen_speaker_are_heard(found, name, language):
    assert found[name]["test"][language]["characters"] < 25


@pytest.mark.slow
def test_the_gap_of_the_losses_goes_where_it_is_asked_to(found):
    levels = Levels(**found["ferero"]["levels"])
    asked, left = (levels.violations(found[name]["dev"]["losses"])["gap"] for name in ("ls", "ferero"))
    assert asked == pytest.approx(abs(read_plan(SETTINGS).shift))
    assert left < asked / 2


@pytest.mark.slow
def test_the_report_is_written(done):
    assert (done.folder / "report.html").stat().st_size > 0
