"""The matrix products of a training step on their own: the speed that no implementation of the step can pass."""

import time
from typing import NamedTuple

import torch


class Product(NamedTuple):
    """``times`` products of [rows, inner] and [inner, columns] in a step."""

    rows: int
    inner: int
    columns: int
    times: int


def step_products(shape: dict[str, int], batch: int, sequence: int) -> list[Product]:
    """What a step of a LLaMA multiplies: linear layers three times, half of attention's S x S seven times."""
    hidden, ffn, layers = shape["hidden_size"], shape["intermediate_size"], shape["num_layers"]
    head_size = hidden // shape["num_attention_heads"]
    key_value = shape["num_key_value_heads"] * head_size
    tokens = batch * sequence
    linears = [(hidden, hidden, 2), (hidden, key_value, 2), (hidden, ffn, 2), (ffn, hidden, 1)]
    weights = [(inputs, outputs, count * layers) for inputs, outputs, count in linears]
    products = []
    for inputs, outputs, count in [*weights, (hidden, shape["vocab_size"], 1)]:
        products.append(Product(tokens, inputs, outputs, count))  # y = x W^T
        products.append(Product(tokens, outputs, inputs, count))  # gradient of x
        products.append(Product(outputs, tokens, inputs, count))  # gradient of W
    heads = layers * batch * shape["num_attention_heads"]
    seen = (sequence + 1) // 2  # keys that a query sees on average
    products.append(
        Product(sequence, head_size, seen, 3 * heads)
    )  # scores twice, and their gradient
    products.append(Product(sequence, seen, head_size, 4 * heads))  # output; gradients of q, k, v
    return products


def flops(products: list[Product]) -> float:
    """Multiplications and additions of the products."""
    return float(sum(2 * p.rows * p.inner * p.columns * p.times for p in products))


def seconds(products: list[Product]) -> float:
    """Time of all of them in float32 on this process's threads; operands are made beforehand."""
    total = 0.0
    for product in products:
        left = torch.randn(product.rows, product.inner)
        right = torch.randn(product.inner, product.columns)
        out = torch.empty(product.rows, product.columns)
        torch.mm(left, right, out=out)  # touches the memory
        start = time.perf_counter()
        for _ in range(product.times):
            torch.mm(left, right, out=out)
        total += time.perf_counter() - start
    return total
