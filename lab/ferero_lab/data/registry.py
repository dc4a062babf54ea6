"""Which public files the data sets are made of: their checksums and where they live."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FILES", "DataFile"]


@dataclass(frozen=True)
class DataFile:
    """A file of a public data set.

    Attributes:
        folders: the sub-folders it may lie in, the usual one first.
        base: its name at its home.
        homes: where it can be had from; the address is ``home + base``.
        content: sha256 of the content, unpacked.
        download: sha256 of the file as its home gives it, packed where the name ends in .gz.
    """

    folders: tuple[str, ...]
    base: str
    homes: tuple[str, ...]
    content: str
    download: str

    @property
    def name(self) -> str:
        """What the file is called here: sub-folder and name."""
        return f"{self.folders[0]}/{self.base}"

    @property
    def spellings(self) -> tuple[str, str]:
        """The name at its home, and the same without or with ``.gz``."""
        packed = self.base.endswith(".gz")
        return self.base, self.base.removesuffix(".gz") if packed else f"{self.base}.gz"


def _idx(folders: tuple[str, ...], homes: tuple[str, ...], checksums: dict[str, tuple[str, str]]) -> list[DataFile]:
    return [DataFile(folders, f"{base}-ubyte.gz", homes, *sums) for base, sums in checksums.items()]


def _plain(folder: str, home: str, checksums: dict[str, str]) -> list[DataFile]:
    return [DataFile((folder,), base, (home,), content, content) for base, content in checksums.items()]


_MNIST = _idx(
    ("mnist", "MNIST/raw"),
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    {
        "train-images-idx3": (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        "train-labels-idx1": (
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        "t10k-images-idx3": (
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        "t10k-labels-idx1": (
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    },
)

_FASHION = _idx(
    ("fashion-mnist", "FashionMNIST/raw"),
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    {
        "train-images-idx3": (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        ),
        "train-labels-idx1": (
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        ),
        "t10k-images-idx3": (
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        ),
        "t10k-labels-idx1": (
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    },
)

_EMOTIONS = _plain(
    "emotions",
    "https://raw.githubusercontent.com/tsoumakas/mulan/master/data/multi-label/emotions/",
    {
        "emotions-train.arff": "bbe704106c79bb8fb99c1d1d2e9bde081d6a2daeb01f100862f11fd91a3c1f98",
        "emotions-test.arff": "f13d4b746b7b5c8eb484bd751d6ac463d4560dff998a93516a5c1fe35daf6c8f",
    },
)

_ADULT = _plain(
    "adult",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",
    {
        "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    },
)

_GERMAN = _plain(
    "german",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/german/",
    {"german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871"},
)

FILES: dict[str, DataFile] = {file.name: file for file in (*_MNIST, *_FASHION, *_EMOTIONS, *_ADULT, *_GERMAN)}
"""Every known file by its name, such as "mnist/train-images-idx3-ubyte.gz" or "adult/adult.data"."""
