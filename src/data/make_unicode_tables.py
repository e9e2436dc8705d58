"""Writes unicode_ranges.inc: the character classes that pre-tokenisers ask for, as runs of code points.

    python make_unicode_tables.py > unicode_ranges.inc

The classes are read from the regular expressions of the `tokenizers` library, whose ids we must equal
(its Unicode version, not Python's, decides what a letter is).
"""

from tokenizers import Regex, pre_tokenizers

BITS = {
    r"\p{L}": 1,
    r"\p{N}": 2,
    r"\s": 4,
    r"\p{M}": 8,
    r"[\p{Lu}\p{Lt}]": 16,
    r"\p{Ll}": 32,
    r"[\p{P}\p{S}]": 64,
}


def members(pattern: str) -> set[int]:
    """All code points that match the pattern."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found: set[str] = set()
    for first in range(0, 0x110000, 256):
        if not 0xD800 <= first < 0xE000:
            text = "".join(map(chr, range(first, first + 256)))
            found |= set(text) - set("".join(piece for piece, _ in split.pre_tokenize_str(text)))
    return {ord(character) for character in found}


classes = [0] * 0x110001
for pattern, bit in BITS.items():
    for code in members(pattern):
        classes[code] |= bit
print("// Made by make_unicode_tables.py: {first, last, classes}.")
start = 0
row: list[str] = []
for code in range(1, 0x110001):
    if classes[code] != classes[start] or code == 0x110000:
        if classes[start]:
            row.append(f"{{{start:#x}, {code - 1:#x}, {classes[start]}}},")
        start = code
        if len(row) == 5:
            print(" ".join(row))
            row = []
print(" ".join(row))
