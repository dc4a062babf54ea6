"""Tiny data files that are registered in place of the true ones, so that no test needs a download."""

import gzip
import hashlib
import socket
import struct
from dataclasses import replace

import numpy as np
import pytest

from ferero_lab.data.registry import FILES


def idx(array, kind=8):
    """The bytes of an idx file."""
    return bytes((0, 0, kind, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def register(monkeypatch):
    """register(name, content, packed=None, homes=()): a file of that name now has this content."""

    def change(name, content, packed=None, homes=()):
        download = content if packed is None else packed
        sums = {"content": hashlib.sha256(content).hexdigest(), "download": hashlib.sha256(download).hexdigest()}
        monkeypatch.setitem(FILES, name, replace(FILES[name], homes=tuple(homes), **sums))

    monkeypatch.delenv("FERERO_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    return change


@pytest.fixture
def closed_port():
    """The address of a port of this machine at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return f"http://127.0.0.1:{port}/"


@pytest.fixture
def tiny_images(tmp_path, register):
    """A folder with 40 training and 20 test images of either kind, of bytes that look random."""
    for kind in ("mnist", "fashion-mnist"):
        for part, count in (("train", 40), ("t10k", 20)):
            noise = hashlib.shake_256(f"{kind} {part}".encode()).digest(count * 28 * 28)
            images = np.frombuffer(noise, np.uint8).reshape(count, 28, 28)
            labels = np.arange(count, dtype=np.uint8) % 10
            for name, array in (("images-idx3", images), ("labels-idx1", labels)):
                content = idx(array)
                path = f"{kind}/{part}-{name}-ubyte.gz"
                register(path, content)
                write(tmp_path, path, gzip.compress(content, mtime=0))
    return tmp_path
