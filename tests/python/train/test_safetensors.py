"""Our safetensors reader and writer against the safetensors package, and against broken files."""

import json
import random
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mindspeed_core import _C

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.complex64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


def make_tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    tensors = {str(dtype): (torch.randn(3, 5) * 4).to(dtype) for dtype in DTYPES}
    tensors |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 4), "one": torch.ones(1)}
    return tensors


def assert_equal(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert set(actual) == set(expected)
    for name, tensor in expected.items():
        assert actual[name].dtype == tensor.dtype, name
        assert torch.equal(actual[name], tensor), name


def test_the_package_reads_what_we_write(tmp_path: Path):
    tensors = make_tensors()
    tensors["transposed"] = torch.randn(4, 6).t()
    _C.save_safetensors(str(tmp_path / "file"), tensors, {"format": "pt"})
    assert_equal(load_file(tmp_path / "file"), tensors)


def test_we_read_what_the_package_writes(tmp_path: Path):
    tensors = make_tensors()
    save_file(tensors, tmp_path / "file", metadata={"some": "thing"})
    assert_equal(_C.load_safetensors(str(tmp_path / "file")), tensors)


def test_a_dtype_that_the_format_lacks_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"phase: dtype ComplexDouble cannot be saved"):
        _C.save_safetensors(str(tmp_path / "file"), {"phase": torch.zeros(2, dtype=torch.cdouble)})


def write_header(path: Path, header: object, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def entry(shape: list[int], offsets: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        ([1], b"", "not a JSON object"),
        ({"a": entry([2], [0, 8], "F7")}, bytes(8), "unknown dtype F7"),
        ({"a": entry([2], [0, 4])}, bytes(8), "needs 8 bytes"),
        ({"a": entry([2], [4, 12])}, bytes(12), "overlap or leave a gap at byte"),
        ({"a": entry([2], [0, 8]), "b": entry([2], [4, 12])}, bytes(12), "overlap or leave a gap"),
        ({"a": entry([2], [0, 8])}, bytes(9), "bytes, found"),
        ({"a": entry([2], [0, 8])}, bytes(7), "its offsets are"),
        ({"a": entry([-2], [0, 8])}, bytes(8), "impossible shape"),
        ({"a": entry([2**62, 2**62], [0, 8])}, bytes(8), "impossible shape"),
        ({"a": entry([2], [0.5, 8])}, bytes(8), "data_offsets must hold whole numbers"),  # type: ignore[list-item]
        ({"a": {"dtype": "F32"}}, b"", "shape"),
    ],
)
def test_broken_headers_are_refused_by_name(
    tmp_path: Path, header: object, data: bytes, message: str
):
    path = tmp_path / "file"
    write_header(path, header, data)
    with pytest.raises(RuntimeError, match=message) as error:
        _C.load_safetensors(str(path))
    assert str(path) in str(error.value)


def test_every_truncation_and_any_flipped_byte_of_the_header_is_survived(tmp_path: Path):
    path = tmp_path / "file"
    _C.save_safetensors(str(path), {"a": torch.randn(3, 4), "b": torch.ones(2, dtype=torch.int64)})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(RuntimeError):
            _C.load_safetensors(str(path))
    generator = random.Random(1)
    header_end = 8 + struct.unpack("<Q", whole[:8])[0]
    for _ in range(2000):
        broken = bytearray(whole)
        broken[generator.randrange(header_end)] = generator.randrange(256)
        path.write_bytes(broken)
        try:
            _C.load_safetensors(str(path))
        except RuntimeError:
            pass  # an error is right; a crash would end the test process
