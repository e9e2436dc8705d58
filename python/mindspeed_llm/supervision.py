"""Ends the whole job within seconds when one rank dies or raises, naming rank, host, step and operation.

Each rank runs a thread with a store connection of its own. It tells the others where this rank is (its
beat), and watches them: a process of this machine by a process descriptor, so that death is seen at once
and a slow rank is never mistaken for a dead one; a process of another machine by its beat.
"""

import json
import os
import select
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist

from mindspeed_llm.errors import TrainingError, UserError
from mindspeed_llm.world import World

POLL_S = 0.25
BEAT_S = 1.0
SILENCE_S = 5.0  # another machine's rank that is silent for so long counts as dead
LAST_WORDS_S = 1.0  # a dying rank may still be telling why
CULPRIT_S = 3.0  # a failed collective waits so long for the peer at fault to be named,
REMOTE_CULPRIT_S = 7.5  # or so long when a peer on another machine may be silent
HANG_S = 5.0  # after a failure the process is ended by force
PREFIX = "mindspeed/supervision"


class Place(NamedTuple):
    """Where a rank is in the run."""

    step: int
    operation: str


class Peer(NamedTuple):
    """Another rank's process."""

    host: str
    machine: str
    pid: int


class Supervision:
    """Watches the ranks of a run; with one rank it only words failures.

    Used as a context: peers must all enter it, and leaving it without an error says that this rank is
    done. ``at(step, operation)`` is called by the training loop as it goes.
    """

    def __init__(self, world: World, machine: str | None = None) -> None:
        self.world = world
        self.place = Place(0, "start")
        self._machine = machine or machine_identity()
        self._store: Any = None
        self._peers: dict[int, Peer] = {}
        self._descriptors: dict[int, int] = {}
        self._stop = threading.Event()
        self._failing = threading.Event()
        self._thread: threading.Thread | None = None

    def at(self, step: int, operation: str) -> None:
        """Note what this rank is doing."""
        self.place = Place(step, operation)

    def __enter__(self) -> "Supervision":
        if self.world.group is None:
            return self
        self._store = own_store()
        me = Peer(self.world.host, self._machine, os.getpid())
        for rank, value in enumerate(self.world.gather(tuple(me))):
            if rank != self.world.rank:
                self._peers[rank] = Peer(*value)
                if self._peers[rank].machine == self._machine:
                    self._descriptors[rank] = os.pidfd_open(self._peers[rank].pid)
        self._thread = threading.Thread(target=self._watch, name="supervision", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._thread is None:
            return
        same_everywhere = getattr(error, "on_every_rank", False)
        if error is None or isinstance(error, SystemExit) or same_everywhere:
            self._set(f"done/{self.world.rank}", "1")
            self._stop.set()
            self._thread.join()
            for descriptor in self._descriptors.values():
                os.close(descriptor)

    def failed(self, error: Exception) -> UserError:
        """Tell the peers that this rank failed; the error to raise, with rank, host, step, operation.

        When the error only follows from a peer's end, the peer is blamed instead (and this process
        ends). Afterwards the process ends within seconds whatever its other threads do.
        """
        if isinstance(error, UserError) and error.on_every_rank:
            return error
        text = str(error).strip() or type(error).__name__
        if not isinstance(error, UserError):
            text = f"{type(error).__name__}: {text.splitlines()[0]}"
        where = f"rank {self.world.rank} on {self.world.host}, step {self.place.step}"
        sentence = f"{where}, {self.place.operation}: {text}"
        if self._thread is not None:
            if _is_from_a_collective(error):
                remote = len(self._descriptors) < len(self._peers)
                time.sleep(
                    REMOTE_CULPRIT_S if remote else CULPRIT_S
                )  # the watching thread ends the process if a peer is at fault
            self._failing.set()
            self._set("failure", sentence)
            ender = threading.Timer(HANG_S, os._exit, (1,))
            ender.daemon = True
            ender.start()
        return TrainingError(sentence)

    def _watch(self) -> None:
        beat, seen = 0.0, {rank: ("", time.monotonic()) for rank in self._peers}
        while not self._stop.wait(POLL_S):
            try:
                if time.monotonic() - beat > BEAT_S:
                    beat = time.monotonic()
                    self._set(f"beat/{self.world.rank}", json.dumps([beat, *self.place]))
                self._end_on_told_failure()
                for rank, peer in self._peers.items():
                    if rank in self._descriptors:
                        dead = _has_ended(self._descriptors[rank])
                    elif self.world.rank == 0 or rank == 0:
                        dead = self._is_silent(rank, seen)
                    else:
                        continue
                    if dead:
                        self._end_on_death(rank, peer)
            except (dist.DistError, RuntimeError) as error:
                if not self._stop.is_set():
                    self._end(
                        f"the job's store cannot be reached any more: {str(error).splitlines()[0]}"
                    )

    def _is_silent(self, rank: int, seen: dict[int, tuple[str, float]]) -> bool:
        beat, now = self._get(f"beat/{rank}"), time.monotonic()
        if beat != seen[rank][0]:
            seen[rank] = (beat, now)
        return now - seen[rank][1] > SILENCE_S

    def _end_on_told_failure(self) -> None:
        sentence = self._get("failure")
        if sentence and not self._failing.is_set():
            self._end(sentence)

    def _end_on_death(self, rank: int, peer: Peer) -> None:
        if self._get(f"done/{rank}"):
            return
        end = time.monotonic() + LAST_WORDS_S
        while time.monotonic() < end:
            self._end_on_told_failure()
            if self._failing.is_set() or self._get(f"done/{rank}"):
                return
            time.sleep(POLL_S / 5)
        # Collectives keep the ranks in step: the dead one was where this one is waiting for it.
        step, operation = self.place
        beat = self._get(f"beat/{rank}")
        if beat and json.loads(beat)[1] == step:
            operation = json.loads(beat)[2]
        self._end(f"rank {rank} on {peer.host}, step {step}, {operation}: process {peer.pid} died")

    def _end(self, sentence: str) -> None:
        """Say it (once a machine) and end this process."""
        first = True
        try:
            first = self._store.add(f"{PREFIX}/told/{self._machine}", 1) == 1
        except (dist.DistError, RuntimeError):
            pass
        if first:
            print(f"mindspeed: error: {sentence}; the whole job ends", file=sys.stderr, flush=True)
        os._exit(1)

    def _set(self, key: str, value: str) -> None:
        self._store.set(f"{PREFIX}/{key}", value)

    def _get(self, key: str) -> str:
        name = f"{PREFIX}/{key}"
        return self._store.get(name).decode() if self._store.check([name]) else ""


def own_store() -> Any:
    """A connection of our own to the job's store: one that is waited on elsewhere would block us."""
    return dist.distributed_c10d._get_default_store().clone()


def machine_identity() -> str:
    """Equal for processes that can see each other's process numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"


def _is_from_a_collective(error: Exception) -> bool:
    """True when a peer may be the one at fault."""
    words = ("gloo", "nccl", "hccl", "connection", "socket", "timed out", "process group")
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in text for word in words)


def _has_ended(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
