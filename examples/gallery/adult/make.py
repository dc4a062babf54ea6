"""Makes train.csv.gz and test.csv.gz from UCI Adult: `python examples/gallery/adult/make.py FOLDER`.

FOLDER holds adult.data and adult.test, packed with gzip or not.
"""

import gzip
import io
import sys
from pathlib import Path

HERE = Path(__file__).parent
NUMBERS = {"age": 0, "education_years": 4, "hours": 12, "gain": 10, "loss": 11}  # columns of the source
MARKS = {  # columns of the source, and the values that become 1
    "married": (5, ("Married-civ-spouse", "Married-AF-spouse")),
    "expert": (6, ("Exec-managerial", "Prof-specialty")),
    "male": (9, ("Male",)),
    "rich": (14, (">50K",)),
}


def read(path: Path) -> list[list[str]]:
    """The people of one file, all columns."""
    beside = path.with_name(f"{path.name}.gz")
    text = gzip.decompress(beside.read_bytes()).decode() if beside.exists() else path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("|")]
    return [[value.strip().removesuffix(".") for value in line.split(",")] for line in lines]


def coded(person: list[str]) -> str:
    """The kept columns of a person as whole numbers."""
    marks = [str(int(person[i] in values)) for i, values in MARKS.values()]
    return ",".join([*(person[i] for i in NUMBERS.values()), *marks])


def packed(people: list[list[str]]) -> bytes:
    """A table with a header, the same bytes for the same people."""
    text = "\n".join([",".join([*NUMBERS, *MARKS]), *map(coded, people), ""])
    file = io.BytesIO()
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0, filename="") as pack:
        pack.write(text.encode())
    return file.getvalue()


def main(folder: Path, target: Path = HERE) -> None:
    """Both files."""
    for source, name in (("adult.data", "train.csv.gz"), ("adult.test", "test.csv.gz")):
        (target / name).write_bytes(packed(read(folder / source)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
