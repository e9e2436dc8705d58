"""The bigram baseline: a proper distribution, right on a case worked by hand, better than unigrams on text."""

import numpy as np
import pytest

from mindspeed_llm.data import PackedDataset
from mindspeed_llm.data.bigram import BigramModel, bigram_loss


def test_probabilities_sum_to_one():
    random = np.random.default_rng(0)
    vocabulary = 13
    tokens = random.zipf(1.5, 500) % vocabulary
    model = BigramModel(tokens, vocabulary)
    for first in range(vocabulary):
        total = sum(np.exp(-model.loss(np.array([first, second]))) for second in range(vocabulary))
        assert total == pytest.approx(1.0, rel=1e-12)


def test_a_case_worked_by_hand():
    # Pairs of 0 1 0 1 0 2: (0,1) twice, (1,0) twice, (0,2) once. D = 1 / (1 + 2 * 2) = 0.2;
    # q = (1 + 1) / (3 + 3) for each. p(1|0) = 1.8/3 + 0.2 * 2/3 / 3.
    model = BigramModel(np.array([0, 1, 0, 1, 0, 2]), 3)
    assert model.discount == 0.2
    assert model.loss(np.array([0, 1])) == pytest.approx(-np.log(1.8 / 3 + 0.4 / 9), rel=1e-12)
    assert model.loss(np.array([2, 1])) == pytest.approx(-np.log(1 / 3), rel=1e-12)


def test_pairs_across_documents_do_not_count():
    with_end = BigramModel(np.array([1, 2, 0, 2, 1, 0]), 3, end_of_document=0)
    pairs = with_end._pairs(np.array([1, 2, 0, 2, 1, 0]))
    assert pairs.tolist() == [1 * 3 + 2, 2 * 3, 2 * 3 + 1, 1 * 3]
    with pytest.raises(ValueError, match="at least one pair"):
        with_end.loss(np.array([0, 1]))


def test_beats_unigrams_on_real_text(austen: str):
    dataset = PackedDataset(austen, 128)
    tokens = np.concatenate(list(dataset.token_blocks(10_000)))
    assert len(tokens) == dataset.num_tokens
    loss = bigram_loss(dataset, 1024, end_of_document=0)
    cut = len(tokens) - int(len(tokens) * 0.1)
    shares = (np.bincount(tokens[:cut], minlength=1024) + 1) / (cut + 1024)
    unigram = -np.log(shares[tokens[cut:]]).mean()
    assert loss < unigram - 1
    assert loss == bigram_loss(tokens, 1024, end_of_document=0)
