"""Data files are found where the user says, else downloaded; only the right content is taken."""

import gzip
import hashlib
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ferero.errors import FereroError, InputError, MissingExtraError
from ferero_lab.data import DownloadError, find_file
from ferero_lab.data import files as files_module
from ferero_lab.data.registry import FILES

from .conftest import write

NAME = "emotions/emotions-train.arff"
IMAGES = "mnist/train-images-idx3-ubyte.gz"
CONTENT = b"some songs\n"
PACKED = gzip.compress(CONTENT, mtime=0)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path_factory):
    pooch = pytest.importorskip("pooch")
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(pooch, "os_cache", lambda project: folder / project)
    pooch.get_logger().setLevel("ERROR")
    return folder / "ferero"


@pytest.fixture
def server():
    """A home at /good/ that gives CONTENT and at /bad/ that gives something else; counts what it is asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = {"good": CONTENT, "packed": PACKED, "bad": b"advertisements"}.get(self.path.split("/")[1])
            self.send_response(200 if body else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/", asked
        listening.shutdown()
        thread.join()


@pytest.mark.parametrize("place", ["emotions/emotions-train.arff", "emotions-train.arff"])
@pytest.mark.parametrize("packed", [False, True])
def test_it_is_found_in_the_folder_flat_or_not_packed_or_not(tmp_path, register, place, packed):
    register(NAME, CONTENT)
    path = write(tmp_path, place + ".gz" * packed, PACKED if packed else CONTENT)
    assert find_file(NAME, tmp_path) == path
    assert find_file(NAME, str(tmp_path)) == path


@pytest.mark.parametrize("place", ["mnist", "MNIST/raw", "."])
@pytest.mark.parametrize("packed", [False, True])
def test_a_packed_file_may_be_unpacked_and_lie_where_torchvision_puts_it(tmp_path, register, place, packed):
    register(IMAGES, CONTENT, packed=PACKED)
    name = "train-images-idx3-ubyte" + ".gz" * packed
    path = write(tmp_path, f"{place}/{name}", PACKED if packed else CONTENT)
    assert find_file(IMAGES, tmp_path).samefile(path)


def test_how_it_was_packed_does_not_matter(tmp_path, register):
    register(IMAGES, CONTENT, packed=PACKED)
    other = gzip.compress(CONTENT, compresslevel=1, mtime=12345)
    assert other != PACKED
    write(tmp_path, IMAGES, other)
    assert find_file(IMAGES, tmp_path) == tmp_path / IMAGES


def test_the_environment_names_a_folder_and_the_argument_goes_before_it(tmp_path, register, monkeypatch):
    register(NAME, CONTENT)
    one, two = write(tmp_path / "one", NAME, CONTENT), write(tmp_path / "two", NAME, CONTENT)
    monkeypatch.setenv("FERERO_DATA", str(tmp_path / "one"))
    assert find_file(NAME) == one
    assert find_file(NAME, tmp_path / "two") == two


def test_a_folder_that_is_not_there(tmp_path, register, monkeypatch):
    register(NAME, CONTENT)
    gone = tmp_path / "gone"
    with pytest.raises(InputError, match=r"folder: expected a folder with data files, found no folder at .*gone"):
        find_file(NAME, gone)
    monkeypatch.setenv("FERERO_DATA", str(gone))
    with pytest.raises(InputError, match=r"FERERO_DATA: expected a folder with data files, found no folder at .*gone"):
        find_file(NAME)


def test_an_unknown_name():
    with pytest.raises(InputError, match=r"name: expected one of mnist/train-images.*, found 'cifar'"):
        find_file("cifar")


def test_a_wrong_checksum_names_the_file_and_both_sums(tmp_path, register):
    register(NAME, CONTENT)
    path = write(tmp_path, NAME, b"other songs\n")
    expected, found = (hashlib.sha256(some).hexdigest() for some in (CONTENT, b"other songs\n"))
    text = f"{path}: expected {NAME}, whose unpacked content has sha256 {expected}, found {found}. Fetch the file again"
    with pytest.raises(InputError, match=re.escape(text)):
        find_file(NAME, tmp_path)


@pytest.mark.parametrize("damaged", [PACKED[:-9], PACKED[:12], PACKED[:15] + b"\xff\xff" + PACKED[17:]])
def test_a_truncated_or_damaged_gzip(tmp_path, register, damaged):
    register(IMAGES, CONTENT, packed=PACKED)
    path = write(tmp_path, IMAGES, damaged)
    with pytest.raises(
        InputError, match=re.escape(f"{path}: expected a whole gzip file, found a truncated or damaged")
    ):
        find_file(IMAGES, tmp_path)


def test_a_file_is_checked_once_and_again_when_it_changes(tmp_path, register, monkeypatch):
    register(NAME, CONTENT)
    path = write(tmp_path, NAME, CONTENT)
    hashed = []
    monkeypatch.setattr(files_module, "_sha256", lambda some: hashed.append(1) or hashlib.sha256(some).hexdigest())
    find_file(NAME, tmp_path)
    find_file(NAME, tmp_path)
    assert len(hashed) == 1
    path.write_bytes(CONTENT + b"more")
    with pytest.raises(InputError, match="found"):
        find_file(NAME, tmp_path)


def test_a_flat_folder_of_digits_is_not_taken_for_fashion(tmp_path, register, closed_port):
    fashion = "fashion-mnist/train-images-idx3-ubyte.gz"
    register(IMAGES, CONTENT, packed=PACKED)
    register(fashion, b"dresses", homes=[closed_port])
    write(tmp_path, "train-images-idx3-ubyte.gz", PACKED)
    assert find_file(IMAGES, tmp_path).read_bytes() == PACKED
    with pytest.raises(DownloadError, match=f"{fashion} is not in .* and could not be downloaded"):
        find_file(fashion, tmp_path)


def test_a_missing_file_is_downloaded_once(register, server, cache, tmp_path):
    home, asked = server
    register(IMAGES, CONTENT, packed=PACKED, homes=[home + "packed/"])
    path = find_file(IMAGES, tmp_path)
    assert path == cache / IMAGES
    assert path.read_bytes() == PACKED
    assert find_file(IMAGES) == path
    assert asked == ["/packed/train-images-idx3-ubyte.gz"]


def test_a_home_that_fails_or_lies_is_passed_over(register, server, cache, closed_port):
    home, asked = server
    register(NAME, CONTENT, homes=[closed_port, home + "gone/", home + "bad/", home + "good/"])
    assert find_file(NAME).read_bytes() == CONTENT
    assert [path.split("/")[1] for path in asked] == ["gone", "bad", "good"]


def test_a_download_with_another_checksum_is_not_kept(register, server, cache):
    home, _ = server
    register(NAME, CONTENT, homes=[home + "bad/"])
    with pytest.raises(
        DownloadError, match=r"could not be downloaded from .*bad/emotions-train.arff \(another checksum\)"
    ):
        find_file(NAME)
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_without_a_network_a_sentence_says_what_to_do(register, closed_port, tmp_path):
    register(NAME, CONTENT, homes=[closed_port, closed_port + "mirror/"])
    address = f"{closed_port}emotions-train.arff (ConnectionError) or {closed_port}mirror/emotions-train.arff"
    with pytest.raises(DownloadError) as caught:
        find_file(NAME)
    assert str(caught.value) == (
        f"{NAME} could not be downloaded from {address} (ConnectionError); "
        "put it into a folder and name it with --data or FERERO_DATA."
    )
    assert isinstance(caught.value, FereroError)
    assert isinstance(caught.value, OSError)
    with pytest.raises(DownloadError, match=re.escape(f"{NAME} is not in {tmp_path} and could not be downloaded")):
        find_file(NAME, tmp_path)


def test_a_full_disk_is_a_sentence_too(register, monkeypatch):
    import pooch

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    register(NAME, CONTENT, homes=["http://127.0.0.1/"])
    monkeypatch.setattr(pooch, "retrieve", full)
    with pytest.raises(DownloadError, match=r"\(No space left on device\)"):
        find_file(NAME)


def test_without_pooch_the_extra_is_named(register, monkeypatch, tmp_path):
    register(NAME, CONTENT)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"pip install ferero-lab\. Or put the file into a folder"):
        find_file(NAME)
    write(tmp_path, NAME, CONTENT)
    assert find_file(NAME, tmp_path).read_bytes() == CONTENT


def test_every_registered_file_has_a_home_and_two_sums():
    assert len(FILES) == 13
    for name, file in FILES.items():
        assert name == file.name
        assert all(home.startswith("http") and home.endswith("/") for home in file.homes)
        assert all(re.fullmatch("[0-9a-f]{64}", some) for some in (file.content, file.download))
        assert (file.content == file.download) == (not file.base.endswith(".gz"))
