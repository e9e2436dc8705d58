"""Texts that break tokenizers, and random mixtures of their pieces."""

import random

PIECES = [
    "the", "The", "THE", "it's", "I'VE", "we'LL", "don't", "'s", "'S", "''", "'", "\u2019s",
    "'\u017f", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\xa0", "\u3000",
    "\u2028", "\x85", "\x0b", "\x1c", "0", "12", "123", "1234567", "1.5", "\u0663\u0664",
    "\xbd", "\u2167", "x2", "2x", "na\xefve", "\xdf", "\u0130", "\u01c5", "\u02b0",
    "\u4e2d\u6587", "\u65e5\u672c\u8a9e", "\ud55c\uae00", "\u0e44\u0e17\u0e22",
    "\u0939\u093f\u0928\u094d\u0926\u0940", "e\u0301", "\u0301", "\u0301A",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\u05e2\u05d1\u05e8\u05d9\u05ea",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea",
    "\U00020000", "\u200b", "\ufeff", "\ufffd", "\U0010ffff", "\x00", "\x7f", "!", "!!", "...",
    "://", "/*", "*/", "()", "{}", "<|endoftext|>", "<s>", "_", "#", "$", "-", "--------",
    "camelCase", "HTTPServer", "snake_case", "ABCdef", "\u65e5\u672cABC", "ABC\u65e5\u672c",
]  # fmt: skip


def odd_texts(count: int, seed: int) -> list[str]:
    """Mixtures of the pieces and of random characters; among them very short and longer ones."""
    pick = random.Random(seed)
    texts = ["", *PIECES]
    while len(texts) < count:
        length = pick.choice([1, 2, 3, 5, 8, 20, 60])
        parts = [
            pick.choice(PIECES) if pick.random() < 0.9 else chr(_character(pick))
            for _ in range(length)
        ]
        texts.append("".join(parts))
    return texts


def _character(pick: random.Random) -> int:
    while True:
        code = pick.randrange(pick.choice([0x80, 0x800, 0x10000, 0x110000]))
        if not 0xD800 <= code < 0xE000:
            return code
