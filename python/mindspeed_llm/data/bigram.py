"""The bigram model: what a language model must beat to have learnt more than which token follows which."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mindspeed_llm.data.packed_dataset import PackedDataset

Tokens = npt.NDArray[np.int64]


class BigramModel:
    """Interpolated Kneser-Ney bigrams with one discount (Kneser & Ney 1995; Chen & Goodman 1999).

    p(w | v) = max(c(v w) - D, 0) / c(v) + D n(v) / c(v) * q(w), where n(v) is the number of different
    followers of v, q(w) the share of w among all different pairs (add-one smoothed), and D = n1 / (n1 + 2 n2)
    from the numbers of pairs seen once and twice.

    Args:
        tokens: the training tokens, documents one after another.
        vocab_size: ids are below this.
        end_of_document: pairs that begin with it are left out, as training leaves them out; -1: none.
    """

    def __init__(self, tokens: Tokens, vocab_size: int, end_of_document: int = -1) -> None:
        self.vocab_size, self.end_of_document = vocab_size, end_of_document
        self._keys, counts = np.unique(self._pairs(tokens), return_counts=True)
        once, twice = int((counts == 1).sum()), int((counts == 2).sum())
        self.discount = once / (once + 2 * twice) if once and twice else 0.5
        first, second = self._keys // vocab_size, self._keys % vocab_size
        self._first_counts = np.bincount(first, counts, vocab_size)
        self._discounted = counts - self.discount
        followers = np.bincount(first, minlength=vocab_size)
        known = self._first_counts > 0
        self._backoff = np.ones(vocab_size)
        self._backoff[known] = self.discount * followers[known] / self._first_counts[known]
        pairs_per_token = np.bincount(second, minlength=vocab_size)
        self._continuation = (pairs_per_token + 1) / (len(self._keys) + vocab_size)

    def loss(self, tokens: Tokens) -> float:
        """Mean cross-entropy in nats of each token given the one before, within documents."""
        pairs = self._pairs(tokens)
        if len(pairs) == 0:
            raise ValueError("BigramModel.loss: tokens must hold at least one pair, got none")
        first, second = pairs // self.vocab_size, pairs % self.vocab_size
        probability = self._backoff[first] * self._continuation[second]
        place = np.minimum(np.searchsorted(self._keys, pairs), len(self._keys) - 1)
        seen = self._keys[place] == pairs if len(self._keys) else np.zeros(len(pairs), bool)
        probability[seen] += self._discounted[place[seen]] / self._first_counts[first[seen]]
        return float(-np.log(probability).mean())

    def _pairs(self, tokens: Tokens) -> Tokens:
        tokens = np.asarray(tokens, dtype=np.int64)
        first, second = tokens[:-1], tokens[1:]
        inside = first != self.end_of_document
        return first[inside] * self.vocab_size + second[inside]


def bigram_loss(
    tokens: Tokens | Iterable[Tokens] | PackedDataset,
    vocab_size: int,
    end_of_document: int = -1,
    held_out: float = 0.1,
) -> float:
    """Cross-entropy (nats per token) of a bigram model on the last part of a corpus, trained on the rest.

    Args:
        tokens: the corpus: an array, blocks of one, or a dataset (its sources in file order).
        vocab_size: ids are below this.
        end_of_document: the id that ends each document; -1: none.
        held_out: the part to evaluate on.
    """
    if isinstance(tokens, PackedDataset):
        tokens = tokens.token_blocks()
    if not isinstance(tokens, np.ndarray):
        tokens = np.concatenate(list(tokens))
    cut = len(tokens) - max(2, int(len(tokens) * held_out))
    return BigramModel(tokens[:cut], vocab_size, end_of_document).loss(tokens[cut:])
