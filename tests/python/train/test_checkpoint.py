"""Checkpoints are whole or not there: damage is found, kills and full disks leave the last good one."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mindspeed_core import _C


def write(root: Path, step: int, value: float, asynchronous: bool = False, keep_last: int = 3):
    writer = _C.CheckpointWriter(str(root), keep_last, 0, 1)
    tensors = {"weight": torch.full((64, 64), value), "bias": torch.arange(7)}
    writer.save(step, tensors, {}, json.dumps({"step": step}), asynchronous)
    writer.wait()


def folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_round_trip(tmp_path: Path, asynchronous: bool):
    write(tmp_path, 50, 2.0, asynchronous)
    path, rejected = _C.find_checkpoint(str(tmp_path))
    assert path == str(tmp_path / "step_00000050") and rejected == []
    reader = _C.CheckpointReader(path)
    assert json.loads(reader.state_json) == {"step": 50}
    assert reader.names() == ["bias", "weight"]
    assert torch.equal(reader.read("weight"), torch.full((64, 64), 2.0))
    assert torch.equal(reader.read_slice("bias", 2, 3), torch.tensor([2, 3, 4]))


def test_an_asynchronous_save_holds_the_values_of_its_moment(tmp_path: Path):
    writer = _C.CheckpointWriter(str(tmp_path), 3, 0, 1)
    weight = torch.ones(512, 512)
    writer.save(1, {"weight": weight}, {}, "{}", True)
    weight.zero_()
    writer.wait()
    assert (_C.CheckpointReader(str(tmp_path / "step_00000001")).read("weight") == 1).all()


def test_only_the_newest_are_kept(tmp_path: Path):
    for step in range(1, 6):
        write(tmp_path, step, float(step), keep_last=2)
    assert folders(tmp_path) == ["step_00000004", "step_00000005"]


def test_damaged_later_ones_do_not_push_out_new_ones(tmp_path: Path):
    """A run that fell back to an earlier step writes lower numbers than what it fell back from."""
    write(tmp_path, 100, 1.0)
    (tmp_path / "step_00000100" / "index.json").write_text("{")
    write(tmp_path, 60, 2.0, keep_last=1)
    write(tmp_path, 70, 3.0, keep_last=1)
    assert folders(tmp_path) == ["step_00000070", "step_00000100"]
    assert _C.find_checkpoint(str(tmp_path))[0] == str(tmp_path / "step_00000070")


def test_saving_a_step_again_replaces_it(tmp_path: Path):
    write(tmp_path, 5, 1.0)
    write(tmp_path, 5, 2.0)
    assert folders(tmp_path) == ["step_00000005"]
    assert (_C.CheckpointReader(str(tmp_path / "step_00000005")).read("weight") == 2).all()


def test_pieces_of_ranks_make_the_global_tensor(tmp_path: Path):
    whole = torch.randn(5, 3)
    writers = [_C.CheckpointWriter(str(tmp_path), 3, rank, 2) for rank in range(2)]
    for rank in (1, 0):  # rank 0 publishes, so it comes last in one thread
        start = rank * 3
        part = whole[start : start + 3]
        tensors, shards = {"weight": part}, {"weight": ([5, 3], [start, 0])}
        writers[rank].save(9, tensors, shards, "{}", False)
    reader = _C.CheckpointReader(str(tmp_path / "step_00000009"))
    assert torch.equal(reader.read("weight"), whole)
    assert torch.equal(reader.read_slice("weight", 2, 2), whole[2:4])


def test_a_rank_that_cannot_write_is_named_by_the_first(tmp_path: Path):
    writers = [_C.CheckpointWriter(str(tmp_path), 3, rank, 2) for rank in range(2)]
    bad = {"phase": torch.zeros(2, dtype=torch.cdouble)}
    with pytest.raises(RuntimeError, match="phase: dtype ComplexDouble cannot be saved"):
        writers[1].save(1, bad, {}, "{}", False)
    with pytest.raises(RuntimeError, match="rank 1: phase: dtype ComplexDouble cannot be saved"):
        writers[0].save(1, {"weight": torch.ones(3)}, {}, "{}", False)
    assert folders(tmp_path) == []


def test_pieces_that_leave_a_hole_are_refused(tmp_path: Path):
    writer = _C.CheckpointWriter(str(tmp_path), 3, 0, 1)
    writer.save(1, {"weight": torch.ones(3)}, {"weight": ([5], [0])}, "{}", False)
    with pytest.raises(RuntimeError, match="lacks 2 elements of weight"):
        _C.CheckpointReader(str(tmp_path / "step_00000001")).read("weight")


@pytest.mark.parametrize("name", ["rank-00000.safetensors", "index.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_damage_falls_back_to_the_one_before(tmp_path: Path, name: str, damage: str):
    write(tmp_path, 1, 1.0)
    write(tmp_path, 2, 2.0)
    file = tmp_path / "step_00000002" / name
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    path, rejected = _C.find_checkpoint(str(tmp_path))
    assert path == str(tmp_path / "step_00000001")
    assert len(rejected) == 1
    assert str(file) in rejected[0]


def test_a_full_disk_leaves_the_last_good_one(tmp_path: Path):
    """RLIMIT_FSIZE makes the kernel refuse bytes beyond the limit, as a full disk does."""
    write(tmp_path, 1, 1.0)
    script = f"""
import resource, torch
from mindspeed_core import _C
writer = _C.CheckpointWriter({str(tmp_path)!r}, 3, 0, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    writer.save(2, {{"weight": torch.ones(1000, 1000)}}, {{}}, "{{}}", False)
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert "rank-00000.safetensors: cannot be written: File too large" in done.stdout, done.stderr
    assert folders(tmp_path) == ["step_00000001"]


def test_kill_in_the_middle_of_writing_is_harmless(tmp_path: Path):
    """A process that saves without pause is killed at random moments; what is left always verifies."""
    script = f"""
import json, torch
from mindspeed_core import _C
path, _ = _C.find_checkpoint({str(tmp_path)!r})
step = 0 if path is None else json.loads(_C.CheckpointReader(path).state_json)["step"]
writer = _C.CheckpointWriter({str(tmp_path)!r}, 2, 0, 1)
print("ready", flush=True)
while True:
    step += 1
    value = torch.full((700, 700), float(step))
    writer.save(step, {{"weight": value}}, {{}}, json.dumps({{"step": step}}), True)
"""
    generator = random.Random(2)
    last = 0
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(generator.uniform(0.02, 0.25))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        path, rejected = _C.find_checkpoint(str(tmp_path))
        assert rejected == []
        if path is not None:
            reader = _C.CheckpointReader(path)
            step = json.loads(reader.state_json)["step"]
            assert step >= last
            assert (reader.read("weight") == step).all()
            last = step
    assert last > 0
    write(tmp_path, last + 1, 0.0)
    assert not [name for name in folders(tmp_path) if not name[5:].isdigit()]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match=r"file/checkpoints: cannot be made: Not a directory"):
        _C.CheckpointWriter(str(tmp_path / "file" / "checkpoints"), 3, 0, 1)
