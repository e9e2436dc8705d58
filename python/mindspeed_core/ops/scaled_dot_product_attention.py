"""Our attention under the name, layout and rules of torch's."""

from torch import Tensor

from mindspeed_core.ops.flash_attention import flash_attention

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``torch.nn.functional.scaled_dot_product_attention`` by ``flash_attention``: ``softmax(scale * Q K^T) V``.

    query [B, H, S, D], key [B, K, L, D], value [B, K, L, E]; H = K, or with ``enable_gqa`` a multiple of it. As in
    torch, ``is_causal`` counts from the first query and key (query i sees keys up to i) whatever the lengths, and
    ``dropout_p`` > 0 always drops. Returns [B, H, S, E], a view of [B, S, H, E].

    ``attn_mask`` is refused: the kernel has no matrix of scores to add it to, and to fall back would silently cost the
    S x L memory that this function is for. Causal masks, documents, windows and ALiBi are arguments of
    ``flash_attention``; for any other mask call torch's function. Raises ValueError for it and for other shapes.
    """
    if attn_mask is not None:
        raise ValueError(
            "scaled_dot_product_attention: attn_mask must be None, got a mask of shape "
            f"{list(attn_mask.shape)}; use is_causal, flash_attention's cu_seqlens, window_size or alibi_slopes, "
            "or torch.nn.functional.scaled_dot_product_attention"
        )
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 4:
            raise ValueError(
                f"scaled_dot_product_attention: {name} must be [batch, heads, sequence, size], "
                f"got {list(tensor.shape)}"
            )
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(
            "scaled_dot_product_attention: query and key must have as many heads, "
            f"got {query.shape[1]} and {key.shape[1]}; set enable_gqa=True to share key/value heads"
        )
    queries, keys = query.shape[2], key.shape[2]
    window_right = -1
    if is_causal and queries >= keys:
        window_right = queries - keys  # flash_attention counts from the last query and key
    elif is_causal:
        # no query sees more than the first `queries` keys; without the others both ends agree
        key, value, window_right = key[:, :, :queries], value[:, :, :queries], 0
    attended = flash_attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        scale=scale,
        dropout=dropout_p,
        window_size=(-1, window_right),
    )
    return attended.transpose(1, 2)
