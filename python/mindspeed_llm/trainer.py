"""``Trainer``: the loop of steps, with checkpoints, metrics, supervision and a clean end."""

import json
import logging
import math
import os
import shutil
import time
import traceback
from collections import deque
from contextlib import ExitStack
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from mindspeed_core import _C
from mindspeed_llm.batches import Batches, MicroBatch
from mindspeed_llm.config import TrainingArguments
from mindspeed_llm.config_checks import Problem, micro_batch_size
from mindspeed_llm.config_file import write_config_file
from mindspeed_llm.errors import ConfigError, NonFiniteError, TrainingError, UserError
from mindspeed_llm.flops import causal_pairs, training_flops
from mindspeed_llm.interruption import Interruption
from mindspeed_llm.kernels import OPTIMIZER_OPS, fused_kernels
from mindspeed_llm.loss_guard import LossGuard
from mindspeed_llm.memory_use import (
    MOMENT_BYTES,
    expected_bytes,
    peak_memory_bytes,
    pool_use,
    resident_bytes,
)
from mindspeed_llm.metrics import MetricsLog
from mindspeed_llm.models.causal_lm import CausalLM
from mindspeed_llm.optimizers import (
    FusedAdamW,
    NamedTensors,
    ScheduledOptimizer,
    TorchOptimizer,
    Updater,
    make_optimizer,
)
from mindspeed_llm.output_folder import prepare_output_folder, starting_checkpoint
from mindspeed_llm.peak_rate import PeakRate, peak_rate
from mindspeed_llm.plan import Plan
from mindspeed_llm.precision import Precision, choose_precision
from mindspeed_llm.progress import Progress
from mindspeed_llm.recompute import describe, fit_to_budget, layer_choices
from mindspeed_llm.run_checkpoint import RunCheckpoint
from mindspeed_llm.samples import open_samples
from mindspeed_llm.schedules import Schedule
from mindspeed_llm.supervision import Supervision
from mindspeed_llm.world import World, join_world, set_log_level

MOST_SKIPPED_STEPS = 30  # fp16: so many overflows in a row are no longer the loss scale's fault
ETA_STEPS = 20
logger = logging.getLogger("mindspeed")


class Trainer:
    """Trains a ``CausalLM`` as the configuration says.

    Args:
        model: from ``AutoModelForCausalLM``.
        args: the whole configuration.
        optimizer: any torch optimizer over ``model.parameters()``; None: ``training.optimizer`` with the
            configured schedule. A given optimizer keeps its own learning rate and weight decay.
        lr_scheduler: any torch scheduler of that optimizer, stepped once a step.

    Raises:
        ConfigError: a layout that is not trained, or arguments that do not fit together.
    """

    def __init__(
        self,
        model: CausalLM,
        args: TrainingArguments,
        optimizer: torch.optim.Optimizer | None = None,
        lr_scheduler: LRScheduler | None = None,
    ) -> None:
        set_log_level()
        args.refuse_untrained_layout()
        if not isinstance(model, CausalLM):
            raise ConfigError(
                f"Trainer: model must be made by AutoModelForCausalLM, got {type(model).__name__};"
                " to shard it set parallel.fsdp: true"
            )
        if optimizer is None and lr_scheduler is not None:
            raise ConfigError("Trainer: lr_scheduler needs the optimizer it belongs to; give both")
        self.model, self.args = model, args
        self.optimizer, self.lr_scheduler = optimizer, lr_scheduler

    def train(self) -> None:
        """Run from the newest checkpoint (or fresh weights) to ``training.max_steps``.

        After Ctrl-C or SIGTERM the step is finished and saved, then SystemExit(128 + signal) is raised.

        Raises:
            ConfigError: the run cannot begin.
            TrainingError: a rank failed, a checkpoint could not be written.
            NonFiniteError: loss or gradients became NaN or infinite.
        """
        world = join_world()
        _set_threads(self.args, world)
        with ExitStack() as stack:
            interruption = stack.enter_context(Interruption())
            supervision = stack.enter_context(Supervision(world))
            try:
                run = _Run(self, world, supervision, interruption, stack)
                run.loop()
                run.finish()
            except (torch.OutOfMemoryError, _C.SwapError) as error:
                text = str(error).splitlines()[0]
                raise supervision.failed(TrainingError(text)) from None
            except Exception as error:
                if isinstance(error, UserError) and error.on_every_rank:
                    raise
                if not isinstance(error, UserError):
                    traceback.print_exc()
                raise supervision.failed(error) from error
        if interruption.signal_number or run.stopped_by:
            raise SystemExit(128 + (interruption.signal_number or run.stopped_by))


class _Run:
    """One call of ``Trainer.train``: what is set up for it, and its loop."""

    def __init__(
        self,
        trainer: Trainer,
        world: World,
        supervision: Supervision,
        interruption: Interruption,
        stack: ExitStack,
    ) -> None:
        args = self.args = trainer.args
        self.model, self.world = trainer.model, world
        self.supervision, self.interruption = supervision, interruption
        self.stopped_by = 0
        self.device = next(self.model.parameters()).device
        libraries = resident_bytes() - _bytes_of(self.model, self.device)
        if self.device.type == "cpu":
            _C.pool_enable()
            _C.pool_set_limit(int((args.memory.pool_limit_gb or 0) * 1e9))
        micro = micro_batch_size(args, world.size)
        if isinstance(micro, Problem):
            raise args.error(micro)
        samples = open_samples(args)
        self.folder = prepare_output_folder(args)
        self.precision = choose_precision(args.training.precision, self.device)
        self.engine = _make_engine(trainer, world, self.precision)
        self.updater = _make_updater(trainer, self.engine)
        self.optimizer_ops = _optimizer_ops(trainer)
        self.guard = LossGuard(args.training.spike_factor)
        self.checkpoint = RunCheckpoint(
            self.folder,
            world,
            self.engine,
            self.model,
            self.updater,
            self.guard,
            args.training.keep_last,
            args.checkpoints_meanwhile,
        )
        self.step, self.samples, start, notes = self._begin()
        self.saved_step = self.step
        self.peak = peak_rate(self.device, self.precision)
        self.recompute = self._choose_recomputation(micro)
        self.batches = Batches(samples, world, args.training.batch_size, micro)
        stack.callback(self.batches.close)
        if self.step < args.training.max_steps:
            self.batches.prepare(self.samples)
        self.metrics = MetricsLog(self.folder, self.step) if world.is_first else None
        if self.metrics is not None:
            stack.callback(self.metrics.close)
        self.progress = stack.enter_context(
            Progress(args.training.max_steps, args.training.log_interval, quiet=not world.is_first)
        )
        self.skipped = 0
        self.recent_s: deque[float] = deque(maxlen=ETA_STEPS)
        self.plan = self._plan(micro, libraries, samples.describe(), start).lines()
        for line in [*self.plan, *(f"note: {note}" for note in notes)]:
            self.progress.say(line)
        self._keep_inputs()

    def loop(self) -> None:
        """Steps until the last one or a signal."""
        training = self.args.training
        while self.step < training.max_steps and not self.stopped_by:
            self.step += 1
            line = self._one_step()
            if training.save_interval and self.step % training.save_interval == 0:
                began = time.perf_counter()
                self._save()
                line["save_s"] = time.perf_counter() - began
                line["step_s"] += line["save_s"]
            self._report_step(line)

    def finish(self) -> None:
        """The last checkpoint, the report, and what was left where."""
        if self.saved_step != self.step:
            self._save()
        self.supervision.at(self.step, "waiting for the checkpoint")
        self.checkpoint.wait()
        if self.metrics is None:
            return
        self.metrics.close()
        from mindspeed_llm.report import write_report

        report = self.folder / "report.html"
        write_report(self.metrics.path, self.plan, report)
        self.progress.say(f"left in {self.folder}:")
        for label, path in [
            ("checkpoint", self.checkpoint.folder(self.step)),
            ("metrics", self.metrics.path),
            ("TensorBoard", self.metrics.tensorboard),
            ("report", report),
        ]:
            if path.exists():
                self.progress.say(f"  {label:<12}{path}")

    def _choose_recomputation(self, micro: int) -> str:
        """Install ``memory.*``'s choice in the engine; a phrase for the plan."""
        if self.args.memory.budget_gb is None:
            return describe(layer_choices(self.args, self.args.model.num_layers))
        if self.device.type != "cpu":
            raise self.args.error(
                Problem(
                    "memory.budget_gb",
                    f"memory.budget_gb works on a CPU only, not on {self.device.type}; set"
                    " memory.recompute instead",
                )
            )
        self.supervision.at(self.step, "choosing what to recompute")
        accumulation = self.args.training.batch_size // self.world.size // micro
        later = 0
        if not self.updater.tensors():  # made at the first step
            count = sum(parameter.numel() for parameter in self.model.parameters())
            later = count * MOMENT_BYTES[self.args.training.optimizer]
        return fit_to_budget(self.args, self.engine, micro, accumulation, later)

    def _begin(self) -> tuple[int, int, str, list[str]]:
        """Step and samples to go on from, a phrase for the plan, and notes for the user."""
        chosen: Any = None
        if self.world.is_first:
            try:
                chosen = starting_checkpoint(self.args, self.folder)
            except ConfigError as error:
                chosen = error
        chosen = self.world.gather(chosen)[0]  # the first rank decides for all
        if isinstance(chosen, ConfigError):
            raise chosen
        path, notes = chosen
        if path is None:
            torch.manual_seed(self.args.training.seed + self.world.rank)
            return 0, 0, "fresh weights", notes
        step, samples = self.checkpoint.restore(path)
        if step >= self.args.training.max_steps:
            notes.append(f"step {step} is the last one already; raise training.max_steps to go on")
        return step, samples, f"step {step} of {path}", notes

    def _one_step(self) -> dict[str, Any]:
        training = self.args.training
        began = time.perf_counter()
        self.supervision.at(self.step, "data")
        micro_batches = self.batches.take(self.samples)
        data_s = time.perf_counter() - began
        self.supervision.at(self.step, "forward and backward")
        stats = self.engine.forward_backward(micro_batches)
        if not stats.finite:
            self._judge_non_finite(stats, micro_batches)
        self.skipped = 0 if stats.finite else self.skipped + 1
        self.supervision.at(self.step, "optimizer")
        update_began = time.perf_counter()
        rate = self.updater.step(self.step, stats.loss, stats.finite)
        optimizer_s = time.perf_counter() - update_began
        self.samples += training.batch_size
        self.supervision.at(self.step, "end of step")
        pairs = self._agree(micro_batches)
        step_s = time.perf_counter() - began
        tokens = training.batch_size * training.seq_len
        flops = training_flops(self.model.spec, tokens, pairs)
        return {
            "step": self.step,
            "loss": _finite(stats.loss),
            "grad_norm": _finite(stats.grad_norm),
            "lr": rate,
            "tokens": tokens,
            "step_s": step_s,
            "data_s": data_s,
            "forward_s": stats.forward_s,
            "backward_s": stats.backward_s,
            "reduce_wait_s": stats.reduce_wait_s,
            "clip_s": stats.clip_s,
            "optimizer_s": optimizer_s,
            "save_s": 0.0,
            "loss_scale": stats.loss_scale,
            "valid_tokens": stats.valid_tokens,
            "samples": self.samples,
            "flops": flops,
        }

    def _agree(self, micro_batches: list[MicroBatch]) -> int:
        """One small collective a step: attention pairs of all ranks, and whether any got a signal."""
        pairs = sum(causal_pairs(cu_seqlens) for *_, cu_seqlens in micro_batches)
        number = self.interruption.signal_number
        pairs, interrupts, signals = self.world.sum([pairs, int(number == 2), int(number != 0)])
        if signals:
            self.stopped_by = number or (2 if interrupts else 15)
        return pairs

    def _report_step(self, line: dict[str, Any]) -> None:
        """Derive rates, write the metrics, show the progress."""
        flops, step_s = line.pop("flops"), line["step_s"]
        line["tokens_per_s"] = line["tokens"] / step_s
        line["model_tflops"] = flops / step_s / 1e12
        peak = self.peak.flops
        line["mfu"] = flops / step_s / (peak * self.world.size) if peak else None
        line["peak_memory_bytes"] = peak_memory_bytes(self.device)
        line |= pool_use()
        if self.metrics is None:
            return
        self.metrics.write(line)
        self.recent_s.append(step_s)
        left = self.args.training.max_steps - self.step
        self.progress.show(line, left * sum(self.recent_s) / len(self.recent_s))
        spike = self.guard.spike(line["loss"]) if line["loss"] is not None else None
        if spike:
            logger.warning("step %d: %s", self.step, spike)

    def _save(self) -> None:
        self.supervision.at(self.step, "checkpoint")
        self.checkpoint.save(self.step, self.samples)
        self.saved_step = self.step

    def _judge_non_finite(self, stats: Any, micro_batches: list[MicroBatch]) -> None:
        """Stop, unless it is an fp16 overflow that a smaller loss scale will cure."""
        if self.precision.name == "fp16" and math.isfinite(stats.loss):
            if self.skipped < MOST_SKIPPED_STEPS:
                logger.info(
                    "step %d left out: overflow at loss scale %g", self.step, stats.loss_scale
                )
                return
        self.supervision.at(self.step, "search for the first non-finite value")
        found = self.world.gather(self.engine.find_non_finite(micro_batches))
        places = [f"{place} on rank {rank}" for rank, place in enumerate(found) if place]
        first = places[0] if places else "nowhere when computed again"
        what = "the loss" if not math.isfinite(stats.loss) else "the gradient"
        raise NonFiniteError(
            f"step {self.step}: {what} is not finite; first in {first}; the last good checkpoint is"
            f" that of step {self.saved_step}; try a lower training.lr or training.clip_norm"
        )

    def _plan(self, micro: int, libraries: int, data: str, start: str) -> Plan:
        owners = self.model.engine.parameter_owners()
        count = sum(math.prod(owner["global_shape"]) for owner in owners)
        shards = self.world.size if self.args.parallel.fsdp else 1
        value_bytes = self.precision.dtype.itemsize
        peaks = self.world.gather(self.peak.flops)
        if self.peak.flops is not None:
            self.peak = PeakRate(sum(peaks) / len(peaks), self.peak.source)
        expected = expected_bytes(
            self.args, self.model.spec, count, micro, shards, value_bytes, libraries
        )
        return Plan(
            self.args,
            self.model.spec,
            count,
            self.world,
            self.device,
            self.precision,
            self.peak,
            fused_kernels(self.device, self.optimizer_ops),
            "on (large CPU buffers are kept, in huge pages)"
            if self.device.type == "cpu"
            else "off (the device has its own caching allocator)",
            micro,
            expected,
            data,
            self.updater.describe(),
            self.recompute,
            start,
        )

    def _keep_inputs(self) -> None:
        """Leave the effective configuration and the tokenizer beside the checkpoints."""
        if not self.world.is_first:
            return
        write_config_file(self.folder / "config.yaml", self.args.model_dump())
        tokenizer = self.args.data.tokenizer
        kept = self.folder / "tokenizer.json"
        if tokenizer and not (kept.exists() and kept.samefile(tokenizer)):
            shutil.copyfile(tokenizer, kept)


def _make_engine(trainer: Trainer, world: World, precision: Precision) -> Any:
    training, parallel = trainer.args.training, trainer.args.parallel
    optimizer = {
        "betas": [training.adam_beta1, training.adam_beta2],
        "eps": training.adam_eps,
        "weight_decay": training.weight_decay,
    }
    settings = {
        "precision": precision.name,
        "clip_norm": training.clip_norm,
        "z_loss": training.z_loss,
        "bucket_bytes": parallel.bucket_mib * 2**20,
        "fsdp": parallel.fsdp and world.size > 1,
        "recompute": layer_choices(trainer.args, trainer.args.model.num_layers),
        "optimizer": optimizer if _updates_in_engine(trainer) else None,
    }
    memory = trainer.args.memory
    if memory.swaps_optimizer and trainer.optimizer is not None:
        raise ConfigError(
            f"memory.swap ({memory.swap}) moves the moments of the engine's own AdamW, got a script's"
            f" {type(trainer.optimizer).__name__}; set memory.swap: activations"
        )
    if memory.swap != "none":
        settings["swap"] = {
            "activations": memory.swaps_activations,
            "optimizer": memory.swaps_optimizer,
            "folder": trainer.args.swap_folder,
        }
    try:
        return _C.StepEngine(trainer.model.engine, json.dumps(settings), world.group)
    except ValueError as error:
        raise ConfigError(str(error).splitlines()[0]) from None


def _updates_in_engine(trainer: Trainer) -> bool:
    """Whether the weights are updated by the engine's own AdamW."""
    return trainer.optimizer is None and trainer.args.training.optimizer == "adamw"


def _optimizer_ops(trainer: Trainer) -> tuple[str, ...]:
    return () if trainer.optimizer is not None else OPTIMIZER_OPS[trainer.args.training.optimizer]


def _make_updater(trainer: Trainer, engine: Any) -> Updater:
    training = trainer.args.training
    if _updates_in_engine(trainer):
        return FusedAdamW(engine, Schedule.from_config(training))
    parameters: NamedTensors = dict(engine.parameters())
    model_parameters: NamedTensors = dict(trainer.model.named_parameters())
    if trainer.optimizer is not None:
        return TorchOptimizer(trainer.optimizer, trainer.lr_scheduler, parameters, model_parameters)
    schedule = Schedule.from_config(training)
    return ScheduledOptimizer(make_optimizer(training, parameters), schedule, parameters)


def _set_threads(args: TrainingArguments, world: World) -> None:
    """CPU threads: as configured, as OMP_NUM_THREADS says, or the cores shared by local ranks.

    torchrun sets OMP_NUM_THREADS=1 by itself for more than one process; that one is no wish.
    """
    threads = args.training.num_threads
    asked = os.environ.get("OMP_NUM_THREADS")
    if threads is None and asked is not None and not (asked == "1" and world.size > 1):
        return
    if threads is None:
        threads = max(1, len(os.sched_getaffinity(0)) // world.local_size)
    torch.set_num_threads(threads)


def _bytes_of(model: CausalLM, device: torch.device) -> int:
    if device.type != "cpu":
        return 0
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
