"""Every vocabulary format against the library that owns it: tiktoken, sentencepiece, mistral-common's tekken."""

import base64
import json
import random
from pathlib import Path

import pytest
import sentencepiece
import tiktoken
import tokenizers
from odd_texts import odd_texts

from mindspeed_llm.data import DataError, Tokenizer

TEXTS = odd_texts(3000, seed=7)
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ\u30a0-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
CAPITALS, SMALLS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}*{SMALLS}+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}+{SMALLS}*",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


@pytest.fixture(scope="session")
def corpus_file(documents: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of English and of the odd pieces."""
    path = tmp_path_factory.mktemp("sentences") / "corpus.txt"
    lines = [line for text in documents[:40] for line in text.splitlines()]
    lines += [text.replace("\n", " ").replace("\r", " ") for text in odd_texts(400, seed=8)]
    path.write_text("\n".join(line.replace("\0", "") for line in lines if line.strip()))
    return path


def sentencepiece_model(corpus: Path, folder: Path, **options) -> Path:
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=1500,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return folder / "tokenizer.model"


LLAMA = {
    "model_type": "bpe",
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "allow_whitespace_only_pieces": True,
    "split_digits": True,
    "character_coverage": 0.99,
}


@pytest.mark.parametrize(
    "options",
    [
        LLAMA,
        {**LLAMA, "add_dummy_prefix": False, "split_by_whitespace": False},
        {"model_type": "bpe", "character_coverage": 0.99},
        {"model_type": "unigram", "character_coverage": 0.99},
        {"model_type": "unigram", "byte_fallback": True, "remove_extra_whitespaces": False},
    ],
    ids=["llama", "no-prefix", "bpe-nmt-nfkc", "unigram-nmt-nfkc", "unigram-bytes"],
)
def test_sentencepiece_models(corpus_file: Path, documents: list[str], tmp_path: Path, options):
    path = sentencepiece_model(corpus_file, tmp_path, **options)
    ours = Tokenizer.from_file(path)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert (ours.bos_token_id, ours.eos_token_id) == (theirs.bos_id(), theirs.eos_id())
    texts = [*TEXTS, *documents[40:60], "<s>not a token</s>", "▁ ▁▁", "x" * 5000, "中" * 3000]
    for text, ids in zip(texts, ours.encode_batch(texts), strict=True):
        expected = theirs.encode(text)
        assert ids.tolist() == expected, repr(text)
        if theirs.unk_id() not in expected:
            assert ours.decode(expected) == theirs.decode(expected)


def test_invalid_bytes_are_replacement_characters_to_sentencepiece(
    corpus_file: Path, tmp_path: Path
):
    ours = Tokenizer.from_file(sentencepiece_model(corpus_file, tmp_path, **LLAMA))
    pick = random.Random(9)
    for length in range(100):
        data = bytes(pick.choices([0x20, 0x61, 0xC3, 0xA9, 0xE4, 0xF0, 0x80, 0xFF, 0], k=length))
        text = ours.decode_bytes(ours.encode(data)).decode()
        assert ours.encode(text) == ours.encode(data)


def test_a_converted_llama_tokenizer_json(corpus_file: Path, tmp_path: Path):
    """Merges over characters with byte fallback, as Llama 2's tokenizer.json has them."""
    path = sentencepiece_model(corpus_file, tmp_path, **LLAMA)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    vocabulary = {pieces.id_to_piece(i): i for i in range(len(pieces))}
    merges = [
        (vocabulary[piece], piece[:i], piece[i:])
        for piece in vocabulary
        for i in range(1, len(piece))
        if piece[:i] in vocabulary and piece[i:] in vocabulary
    ]
    model = tokenizers.models.BPE(
        vocabulary,
        [(left, right) for _, left, right in sorted(merges)],
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    for variant in ("normalizer", "always", "first", "never"):
        theirs = tokenizers.Tokenizer(model)
        if variant == "normalizer":
            theirs.normalizer = tokenizers.normalizers.Sequence(
                [
                    tokenizers.normalizers.Prepend("▁"),
                    tokenizers.normalizers.Replace(" ", "▁"),
                ]
            )
        else:
            theirs.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(
                prepend_scheme=variant, split=False
            )
        theirs.add_special_tokens(["<s>", "</s>", "<unk>"])
        theirs.save(str(tmp_path / "tokenizer.json"))
        ours = Tokenizer.from_file(tmp_path / "tokenizer.json")
        for text in TEXTS[:1500]:
            with_specials = theirs.encode(text, add_special_tokens=False).ids
            assert ours.encode(text, parse_special=True) == with_specials, (variant, text)


def rank_lines(vocabulary: str) -> dict[bytes, int]:
    """The byte-level vocabulary of the fixture as ranks."""
    ours = Tokenizer.from_file(vocabulary)
    tokens = [ours.decode_bytes([i], skip_special_tokens=True) for i in range(ours.vocab_size)]
    return {token: rank for rank, token in enumerate(token for token in tokens if token)}


@pytest.mark.parametrize(
    ("size", "expression"),
    [
        (50256, r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""),
        (
            100256,
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
    ],
)
def test_rank_files(vocabulary: str, documents: list[str], tmp_path: Path, size: int, expression):
    """Ranks of a small vocabulary, filled up with words that no merge makes, to a known size."""
    ranks = rank_lines(vocabulary)
    ranks["中文".encode()] = len(ranks)  # a word, never a piece of one
    while len(ranks) < size:
        ranks[b"filler%d" % len(ranks)] = len(ranks)
    ranks = {token: rank for rank, token in enumerate(ranks)}
    path = tmp_path / "some.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % rank for t, rank in ranks.items()))
    ours = Tokenizer.from_file(path)
    theirs = tiktoken.Encoding(
        "t", pat_str=expression, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": size + 50}
    )
    assert ours.token_to_id("<|endoftext|>") == ours.eos_token_id
    texts = [*TEXTS, *documents[:30], "filler2000", " filler2000 xfiller3000", "中文filler2000文"]
    texts += ["中文", "日本中文日本語中文字", "中文中文中文中文中文"]
    for text, ids in zip(texts, ours.encode_batch(texts), strict=True):
        assert ids.tolist() == theirs.encode_ordinary(text), repr(text)
        assert ours.decode(ids) == text


def test_rank_file_of_nobody_is_refused(tmp_path: Path):
    path = tmp_path / "a.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256)))
    with pytest.raises(DataError, match="number of ranks must be that of a known vocabulary"):
        Tokenizer.from_file(path)
    path.write_bytes(path.read_bytes() + b"%%% 7\n")
    with pytest.raises(DataError, match="line 257"):
        Tokenizer.from_file(path)


def test_tekken(vocabulary: str, documents: list[str], tmp_path: Path):
    ranks, num_special = rank_lines(vocabulary), 20
    tokens = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for token, rank in ranks.items()
    ]
    config = {
        "pattern": TEKKEN,
        "num_vocab_tokens": len(ranks),
        "default_vocab_size": len(ranks) - 100 + num_special,
        "default_num_special_tokens": num_special,
        "version": "v3",
    }
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps({"config": config, "vocab": tokens}))
    ours = Tokenizer.from_pretrained(tmp_path)
    used = {token: rank for token, rank in ranks.items() if rank < len(ranks) - 100}
    theirs = tiktoken.Encoding("t", pat_str=TEKKEN, mergeable_ranks=used, special_tokens={})
    for text in [*TEXTS, *documents[:30]]:
        expected = [i + num_special for i in theirs.encode_ordinary(text)]
        assert ours.encode(text) == expected, repr(text)
    assert ours.encode("<s>", parse_special=True) == [1] == [ours.bos_token_id]


def test_deepseek(vocabulary: str, documents: list[str], tmp_path: Path):
    content = json.loads(Path(vocabulary).read_text())
    splits = [
        {"type": "Split", "pattern": {"Regex": e}, "behavior": "Isolated", "invert": False}
        for e in DEEPSEEK
    ]
    content["normalizer"] = {"type": "Sequence", "normalizers": []}
    content["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [*splits, {**content["pre_tokenizer"], "use_regex": False}],
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    ours, theirs = Tokenizer.from_file(path), tokenizers.Tokenizer.from_file(str(path))
    theirs.encode_special_tokens = True
    for text in [*odd_texts(6000, seed=10), *documents[:30], "\x01\x02a", "\x01 \x02", "́ ab1  2"]:
        assert ours.encode(text) == theirs.encode(text).ids, repr(text)
    ours.save(tmp_path / "again.json")
    assert Tokenizer.from_file(tmp_path / "again.json").encode("a1中b") == ours.encode("a1中b")
    content["pre_tokenizer"]["pretokenizers"].pop(1)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="expression must be that of"):
        Tokenizer.from_file(path)


def test_normal_form_c(vocabulary: str, tmp_path: Path):
    content = json.loads(Path(vocabulary).read_text())
    content["normalizer"] = {"type": "NFC"}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    ours, theirs = Tokenizer.from_file(path), tokenizers.Tokenizer.from_file(str(path))
    theirs.encode_special_tokens = True
    for text in ["e\u0301", "\u1112\u1161\u11ab", "q\u0323\u0307 x", "plain", *TEXTS[:500]]:
        assert ours.encode(text) == theirs.encode(text).ids, repr(text)


def test_vocab_and_merges(vocabulary: str, documents: list[str], tmp_path: Path):
    tokenizers.Tokenizer.from_file(vocabulary).model.save(str(tmp_path))
    assert {p.name for p in tmp_path.iterdir()} == {"vocab.json", "merges.txt"}
    ours, reference = Tokenizer.from_pretrained(tmp_path), Tokenizer.from_file(vocabulary)
    for text in [*TEXTS[:500], *documents[:10]]:
        assert ours.encode(text) == reference.encode(text)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(DataError, match="must lie in one folder"):
        Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff\x01", b"version https://git-lfs\n", b"\n\x05a"]
)
def test_refuses_what_is_no_vocabulary(tmp_path: Path, content: bytes):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(content)
    with pytest.raises(DataError, match="SentencePiece model"):
        Tokenizer.from_file(path)
    path.unlink()
    with pytest.raises(DataError, match=r"must hold a tokenizer\.json"):
        Tokenizer.from_pretrained(tmp_path)
