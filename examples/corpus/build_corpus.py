"""Builds austen.jsonl.gz from Debian's r-cran-janeaustenr: Jane Austen's six novels, one chapter a line.

    apt-get download r-cran-janeaustenr && dpkg-deb -x r-cran-janeaustenr_*.deb package
    python build_corpus.py package austen.jsonl.gz

The package stores each novel as a serialised R character vector in one zlib block of Rdata.rdb.
"""

import gzip
import json
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

RDB = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
STRING_VECTOR, STRING = 16, 9  # R's SEXP type codes, in the low byte of the flags
CHAPTER = re.compile(r"(?:VOLUME|CHAPTER|Chapter) [0-9IVXLC]+\b.*")


def novels(rdb: Path) -> Iterator[list[str]]:
    """The lines of each novel, in the order of the package."""
    data = rdb.read_bytes()
    while data:
        inflate = zlib.decompressobj()
        block = inflate.decompress(data[4:])  # 4 bytes: the inflated size
        data = inflate.unused_data
        yield string_vector(block)


def string_vector(block: bytes) -> list[str]:
    """An R character vector in XDR serialisation (version 2 or 3)."""
    (version,) = struct.unpack_from(">i", block, 2)
    position = 14
    if version == 3:  # the native encoding's name follows
        position += 4 + struct.unpack_from(">i", block, position)[0]
    flags, count = struct.unpack_from(">ii", block, position)
    if flags & 0xFF != STRING_VECTOR:
        raise ValueError(f"expected a character vector, got R type {flags & 0xFF}")
    position += 8
    lines = []
    for _ in range(count):
        flags, size = struct.unpack_from(">ii", block, position)
        if flags & 0xFF != STRING:
            raise ValueError(f"expected a string, got R type {flags & 0xFF}")
        position += 8
        lines.append(block[position : position + size].decode("utf-8"))
        position += size
    return lines


def chapters(lines: list[str]) -> Iterator[str]:
    """Cut a novel at its chapter headings; headings without text stay with the chapter they open."""
    chapter: list[str] = []
    for line in lines:
        if CHAPTER.fullmatch(line.strip()) and sum(map(len, chapter)) > 500:
            yield "\n".join(chapter).strip() + "\n"
            chapter = []
        chapter.append(line.rstrip())
    yield "\n".join(chapter).strip() + "\n"


def main(package: str, output: str) -> None:
    """Write the corpus; the bytes depend on nothing but the package."""
    documents = [c for lines in novels(Path(package) / RDB) for c in chapters(lines)]
    text = "".join(json.dumps({"text": d}, ensure_ascii=False) + "\n" for d in documents)
    with (
        Path(output).open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=raw, mtime=0) as out,
    ):
        out.write(text.encode())
    print(f"{len(documents)} documents, {len(text.encode())} bytes of JSONL")


if __name__ == "__main__":
    main(*sys.argv[1:])
