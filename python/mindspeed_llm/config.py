"""The typed configuration: every key, its type, its default and its meaning.

A key's docstring is its documentation: ``mindspeed info --config`` and docs/configuration.md are made
from it. Values are strict: an unknown key or a wrong type is an error that names file and line.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mindspeed_llm.config_checks import Problem, first_problem, refused_layout
from mindspeed_llm.config_errors import refuse_unknown_keys, to_config_error
from mindspeed_llm.config_file import ConfigFile, read_config_file
from mindspeed_llm.errors import ConfigError
from mindspeed_llm.presets import preset_values


def _integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 1e5
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("rule", "must be a whole number")


def _number(value: Any) -> Any:
    if isinstance(value, str):  # YAML 1.1 reads 3e-4 as a word
        try:
            return float(value)
        except ValueError:
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise PydanticCustomError("rule", "must be a number")


def _switch(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    raise PydanticCustomError("rule", "must be true or false")


def _text(value: Any) -> Any:
    if isinstance(value, str | Path):
        return str(value)
    raise PydanticCustomError("rule", "must be text")


def _sources(value: Any) -> Any:
    if isinstance(value, str | Path):
        return [{"path": str(value)}]
    if value is None:
        return []
    if not isinstance(value, list) or not value:
        raise PydanticCustomError("rule", "must be a prefix or a list of path and weight")
    return [{"path": entry} if isinstance(entry, str) else entry for entry in value]


Integer = Annotated[int, BeforeValidator(_integer)]
Number = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
Switch = Annotated[bool, BeforeValidator(_switch)]
Text = Annotated[str, BeforeValidator(_text)]
Count = Annotated[Integer, Field(ge=1)]
CountOrZero = Annotated[Integer, Field(ge=0)]
Positive = Annotated[Number, Field(gt=0)]
PositiveOrZero = Annotated[Number, Field(ge=0)]
BelowOne = Annotated[Number, Field(ge=0, lt=1)]


class Section(BaseModel):
    """Base of the sections: strict, every field documented by the text below it."""

    model_config = ConfigDict(
        extra="forbid",
        validate_default=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )


class RopeScaling(Section):
    """How rotary positions are stretched beyond the context that a model was first trained on."""

    type: Literal["linear", "dynamic", "llama3"]
    """rule: `linear`, `dynamic` (NTK) or `llama3`"""
    factor: Positive
    """how many times longer the context becomes"""
    low_freq_factor: Positive = 1.0
    """llama3: wavelengths above original length / this are stretched by the whole factor"""
    high_freq_factor: Positive = 4.0
    """llama3: wavelengths below original length / this stay as they are"""
    original_max_position_embeddings: Count | None = None
    """context before stretching; null: `max_position_embeddings`"""


class ModelConfig(Section):
    """What is trained. A family or a preset gives the values that are not written."""

    type: Text = "llama2"
    """a family (`llama`, `llama2`, `llama3`) or a preset (`llama2-7b`, ... in configs/models)"""
    vocab_size: Count = 32000
    """number of tokens; at least the tokenizer's"""
    hidden_size: Count = 4096
    """width of the residual stream"""
    num_layers: Count = 32
    """decoder layers"""
    num_attention_heads: Count = 32
    """query heads"""
    num_key_value_heads: Count = None  # type: ignore[assignment]
    """key/value heads; null: as many as query heads"""
    head_size: Count = None  # type: ignore[assignment]
    """size of a head; null: hidden_size / num_attention_heads"""
    intermediate_size: Count = None  # type: ignore[assignment]
    """width of the MLP; null: 8/3 of hidden_size, rounded up to a multiple of 256"""
    max_position_embeddings: Count = None  # type: ignore[assignment]
    """longest context; null: the family's, or training.seq_len where that is longer"""
    norm_eps: Positive = 1e-5
    """added to the mean square in RMSNorm"""
    rope_theta: Positive = 10000.0
    """base of the rotary wavelengths"""
    rope_scaling: RopeScaling | None = None
    """stretching of rotary positions: {type, factor, ...}"""
    tie_word_embeddings: Switch = False
    """the output layer uses the embedding's weight"""
    initializer_range: Positive = 0.02
    """standard deviation of fresh weights"""
    use_flash_attention: Switch = True
    """fused attention; the engine has no other, so false is refused"""

    _seed: int | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """Lay the written values over the family's and the preset's, then derive what is missing."""
        if not isinstance(values, dict):
            return values
        written = {key: value for key, value in values.items() if value is not None}
        named = written.get("type", "llama2")
        if not isinstance(named, str):
            return values
        full = {**preset_values(named), **written}
        full["type"] = preset_values(named)["type"]
        hidden = full.get("hidden_size", cls.model_fields["hidden_size"].default)
        heads = full.get("num_attention_heads", cls.model_fields["num_attention_heads"].default)
        full.setdefault("num_key_value_heads", heads)
        if _is_count(hidden):
            full.setdefault("intermediate_size", -(-hidden * 8 // 3) // -256 * -256)
            if _is_count(heads):
                full.setdefault("head_size", max(1, hidden // heads))
        if full.get("rope_scaling") is None:
            full.pop("rope_scaling", None)
        return full

    @property
    def seed(self) -> int | None:
        """Seed of fresh weights: ``training.seed`` of the arguments this section belongs to."""
        return self._seed

    def to_spec(self) -> dict[str, Any]:
        """The engine's ModelSpec as nested dictionaries."""
        rotary: dict[str, Any] = {"theta": self.rope_theta}
        if self.rope_scaling is not None:
            scaling = self.rope_scaling
            rotary |= {
                "scaling": scaling.type,
                "factor": scaling.factor,
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
                "original_max_position_embeddings": scaling.original_max_position_embeddings
                or self.max_position_embeddings,
            }
        return {
            "family": "llama",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "num_layers": self.num_layers,
            "max_position_embeddings": self.max_position_embeddings,
            "initializer_range": self.initializer_range,
            "tie_word_embeddings": self.tie_word_embeddings,
            "attention": {
                "num_heads": self.num_attention_heads,
                "num_key_value_heads": self.num_key_value_heads,
                "head_size": self.head_size,
            },
            "mlp": {"intermediate_size": self.intermediate_size},
            "norm": {"eps": self.norm_eps},
            "rotary": rotary,
        }


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class ParallelConfig(Section):
    """How the work is divided. Data parallelism takes the processes that are left."""

    tensor_parallel: Count = 1
    """processes that share each layer; building a model works, training with more than 1 is refused"""
    pipeline_parallel: Count = 1
    """stages of layers; building a model works, training with more than 1 is refused"""
    fsdp: Switch = False
    """shard weights, gradients and optimizer state over the data parallel processes"""
    bucket_mib: Count = 25
    """gradients are reduced in buckets of this size while backward goes on"""


class MemoryConfig(Section):
    """What is kept for backward, and how much memory a process may take."""

    recompute: Literal["none", "selective", "full"] = "none"
    """computed again in backward: `none` (norms and SwiGLU only), `selective` (the MLP too), `full` (layers)"""
    recompute_every: Count = 1
    """only every so many layers recompute, from the first on"""
    budget_gb: Positive | None = None
    """memory a process may take (10^9 bytes): picks the recomputation of least time under it; CPU only"""
    pool_limit_gb: Positive | None = None
    """most memory that the buffer pool hands out (10^9 bytes); beyond it the run stops with a clear error"""
    swap: Literal["none", "activations", "optimizer", "all"] = "none"
    """moved to a file while not needed: what layers keep for backward, the moments of `adamw`, or both"""
    swap_folder: Text | None = None
    """local folder of the swap file, which has no name and goes with the process; null: training.output_dir"""

    @property
    def swaps_activations(self) -> bool:
        """Whether activations leave memory between forward and backward."""
        return self.swap in ("activations", "all")

    @property
    def swaps_optimizer(self) -> bool:
        """Whether the optimizer's moments live in a file."""
        return self.swap in ("optimizer", "all")


class DataSource(Section):
    """One tokenised corpus of a mixture."""

    path: Text
    """prefix of the .bin and .idx files that `mindspeed preprocess` wrote"""
    weight: Positive = 1.0
    """share of the samples, relative to the other sources"""


class DataConfig(Section):
    """What is read. Paths are relative to the working directory."""

    train: Annotated[list[DataSource], BeforeValidator(_sources)] = Field(default_factory=list)
    """prefix of .bin/.idx files, or a list of {path, weight}"""
    tokenizer: Text | None = None
    """tokenizer.json; checked against the model, kept beside the checkpoints for `generate`"""
    cross_documents: Switch = False
    """tokens attend to other documents in their sample; false: each document is on its own"""


class TrainingConfig(Section):
    """How the weights are found, and what is left on disk."""

    batch_size: Count = 64
    """samples in a step over all processes"""
    micro_batch_size: Count | None = None
    """samples of one forward pass; null: the most that divide a process's share within 8192 tokens"""
    seq_len: Count = 2048
    """tokens in a sample; documents are packed into it without padding"""
    max_steps: Count = 1000
    """optimizer steps"""
    optimizer: Literal["adamw", "adamw_8bit", "lion", "muon"] = "adamw"
    """`adamw`, `adamw_8bit` (moments in 8 bits), `lion`, or `muon` (hidden matrices; AdamW for the rest)"""
    lr: Positive = 3e-4
    """peak learning rate (of our optimizer; a script's own optimizer keeps its own)"""
    lr_schedule: Literal["constant", "cosine", "linear", "wsd"] = "cosine"
    """course of the learning rate after warm-up"""
    warmup_steps: CountOrZero | None = None
    """steps of linear rise; null: a fiftieth of max_steps, at most 2000"""
    min_lr: PositiveOrZero | None = None
    """learning rate at the end; null: a tenth of lr"""
    decay_fraction: Annotated[Number, Field(gt=0, le=1)] = 0.2
    """wsd: share of max_steps in which the learning rate falls"""
    weight_decay: PositiveOrZero = 0.1
    """decoupled decay of matrices; norms and biases have none"""
    adam_beta1: BelowOne = 0.9
    """decay of AdamW's mean"""
    adam_beta2: BelowOne = 0.95
    """decay of AdamW's mean square"""
    adam_eps: Positive = 1e-8
    """added to the root of AdamW's mean square"""
    clip_norm: PositiveOrZero = 1.0
    """global gradient norm is scaled down to this; 0: off"""
    z_loss: PositiveOrZero = 0.0
    """weight of the squared log-partition added to the loss; 0: off"""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """compute type; auto: bf16 where the machine is fast at it, else fp32"""
    seed: CountOrZero = 1234
    """decides initial weights and the order of the samples"""
    output_dir: Text = "runs/mindspeed"
    """folder for checkpoints, metrics.jsonl, TensorBoard events and the report"""
    save_interval: CountOrZero = 500
    """steps between checkpoints; 0: only at the end"""
    keep_last: Count = 3
    """checkpoints that stay"""
    async_checkpoint: Switch = True
    """write checkpoints while training goes on"""
    resume: Text = "auto"
    """`auto`: the newest good checkpoint of output_dir; `never`; or a checkpoint's folder"""
    log_interval: Count = 1
    """steps between lines when the output is not a terminal"""
    spike_factor: Annotated[Number, Field(ge=0)] = 2.0
    """warn when the loss is this many times its running mean; 0: off"""
    num_threads: Count | None = None
    """CPU threads of a process; null: OMP_NUM_THREADS, or this machine's cores shared evenly"""


class TrainingArguments(Section):
    """The whole configuration: ``.model``, ``.parallel``, ``.memory``, ``.data``, ``.training``."""

    model: ModelConfig = Field(default_factory=lambda: ModelConfig.model_validate({}))
    parallel: ParallelConfig = Field(default_factory=ParallelConfig)
    memory: MemoryConfig = Field(default_factory=MemoryConfig)
    data: DataConfig = Field(default_factory=DataConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    _source: ConfigFile | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _longest_context(cls, values: Any) -> Any:
        """A context that is not written is at least as long as the samples."""
        if not isinstance(values, dict) or not isinstance(values.get("model", {}), dict):
            return values
        training, model = values.get("training", {}), dict(values.get("model", {}))
        seq_len = training.get("seq_len") if isinstance(training, dict) else training.seq_len
        named = model.get("type", "llama2")
        if model.get("max_position_embeddings") is None and isinstance(named, str):
            familiar = preset_values(named)["max_position_embeddings"]
            model["max_position_embeddings"] = max(familiar, seq_len if _is_count(seq_len) else 0)
        return {**values, "model": model}

    @model_validator(mode="after")
    def _check(self) -> "TrainingArguments":
        self.model._seed = self.training.seed
        problem = first_problem(self)
        if problem is not None:
            raise PydanticCustomError(
                "across", "{text}", {"text": problem.text, "key": problem.key}
            )
        return self

    @classmethod
    def from_yaml(cls, path: str | Path, overrides: Iterable[str] = ()) -> "TrainingArguments":
        """Read a YAML file; ``overrides`` are ``section.key=value`` texts laid over it.

        Raises:
            ConfigError: a missing file, an unknown key, a wrong type, values that do not fit together.
                One line that begins with FILE:LINE.
        """
        source = read_config_file(path)
        source.override(overrides)
        refuse_unknown_keys(cls, source)
        try:
            arguments = cls.model_validate(source.values)
        except ValidationError as error:
            raise to_config_error(error, source) from None
        arguments._source = source
        return arguments

    @property
    def swap_folder(self) -> str:
        """Where the swap file lies."""
        return self.memory.swap_folder or self.training.output_dir

    @property
    def checkpoints_meanwhile(self) -> bool:
        """Whether checkpoints are written while training goes on.

        Not with swapped moments: the copy to write from would bring them back to memory.
        """
        return self.training.async_checkpoint and not self.memory.swaps_optimizer

    def where(self, key: str) -> str:
        """``FILE:LINE: key`` for messages about a key such as ``data.train``."""
        if self._source is None:
            return key
        return f"{self._source.where(tuple(key.split('.')))}: {key}"

    def error(self, problem: Problem) -> ConfigError:
        """The exception for a broken rule, with the place of its key."""
        place = self.where(problem.key).removesuffix(problem.key)
        return ConfigError(f"{place}{problem.text}")

    def refuse_untrained_layout(self) -> None:
        """Raise ConfigError for a layout that models are built for but that is not trained yet."""
        problem = refused_layout(self)
        if problem is not None:
            raise self.error(problem)
