"""The buffer pool: reuse without growth, merging, the limit, threads, fork, and living beside the old allocator."""

import os
import random
import threading

import pytest
import torch

from mindspeed_core import _C

MIB = 1 << 20


@pytest.fixture(autouse=True)
def pool():
    _C.pool_enable()
    yield
    _C.pool_set_limit(0)
    _C.pool_disable()
    _C.pool_trim()


def test_large_buffers_come_from_the_pool_and_small_ones_do_not():
    before = _C.pool_statistics()["in_use_bytes"]
    small = torch.empty(1000)
    assert _C.pool_statistics()["in_use_bytes"] == before
    large = torch.empty(MIB, dtype=torch.uint8)
    assert _C.pool_statistics()["in_use_bytes"] == before + MIB
    del large, small
    assert _C.pool_statistics()["in_use_bytes"] == before


def test_a_freed_buffer_is_used_again():
    first = torch.empty(8 * MIB, dtype=torch.uint8)
    address = first.data_ptr()
    mapped = _C.pool_statistics()["mapped"]
    del first
    assert torch.empty(8 * MIB, dtype=torch.uint8).data_ptr() == address
    assert _C.pool_statistics()["mapped"] == mapped


def test_changing_shapes_do_not_grow_the_pool():
    generator = random.Random(3)
    sizes = [[generator.randint(MIB, 12 * MIB) for _ in range(8)] for _ in range(25)]

    def rounds(count: int) -> int:
        for number in range(count):
            kept = []
            for size in sizes[number % len(sizes)]:
                kept.append(torch.empty(size, dtype=torch.uint8))
                if generator.random() < 0.3:
                    kept.pop(generator.randrange(len(kept)))
        return _C.pool_statistics()["reserved_bytes"]

    settled = rounds(100)
    assert rounds(1000) <= settled + 64 * MIB


def test_contents_of_live_buffers_stay_apart():
    generator = random.Random(4)
    live: list[tuple[torch.Tensor, int]] = []
    for number in range(300):
        tensor = torch.full((generator.randint(MIB, 3 * MIB),), number % 251, dtype=torch.uint8)
        live.append((tensor, number % 251))
        if len(live) > 12:
            tensor, value = live.pop(generator.randrange(len(live)))
            assert (tensor == value).all()
    for tensor, value in live:
        assert (tensor == value).all()


def test_trim_gives_everything_unused_back():
    del_me = [torch.empty(40 * MIB, dtype=torch.uint8) for _ in range(3)]
    assert _C.pool_statistics()["reserved_bytes"] >= 120 * MIB
    del del_me
    _C.pool_trim()
    statistics = _C.pool_statistics()
    assert statistics["in_use_bytes"] == 0
    assert statistics["reserved_bytes"] == 0


def test_the_limit_is_an_error_that_names_the_numbers():
    in_use = _C.pool_statistics()["in_use_bytes"]
    _C.pool_set_limit(in_use + 4 * MIB)
    kept = torch.empty(3 * MIB, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match=f"limit is {in_use + 4 * MIB} bytes"):
        torch.empty(2 * MIB, dtype=torch.uint8)
    del kept
    torch.empty(4 * MIB, dtype=torch.uint8)


def test_buffers_outlive_the_switch_both_ways():
    _C.pool_disable()
    old = torch.ones(2 * MIB, dtype=torch.uint8)
    _C.pool_enable()
    ours = torch.ones(2 * MIB, dtype=torch.uint8)
    del old
    _C.pool_disable()
    assert ours.sum() == 2 * MIB
    del ours
    assert _C.pool_statistics()["in_use_bytes"] == 0


def test_peak_is_the_highest_since_reset():
    _C.pool_reset_peak()
    base = _C.pool_statistics()["in_use_bytes"]
    first = torch.empty(6 * MIB, dtype=torch.uint8)
    del first
    second = torch.empty(2 * MIB, dtype=torch.uint8)
    assert _C.pool_statistics()["peak_in_use_bytes"] == base + 6 * MIB
    del second


def test_threads_share_the_pool():
    failures: list[str] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for number in range(100):
            tensor = torch.full((generator.randint(MIB, 2 * MIB),), seed, dtype=torch.uint8)
            if not (tensor == seed).all():
                failures.append(f"thread {seed}, round {number}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_forked_child_goes_on():
    torch.set_num_threads(1)  # a child has none of the parent's OpenMP threads
    kept = torch.empty(2 * MIB, dtype=torch.uint8).fill_(7)
    child = os.fork()
    if child == 0:
        fresh = torch.empty(2 * MIB, dtype=torch.uint8).fill_(9)
        os._exit(0 if int(kept[5]) == 7 and int(fresh[5]) == 9 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (kept == 7).all()
