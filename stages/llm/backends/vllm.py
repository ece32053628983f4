"""vLLM in this process: its offline engine, started once and fed request by request.

Requests enter the engine in the order in which they come, as many at a time as keep it busy, and an
answer is handed on in the step in which it ends. vLLM starts requests first come, first served, so
those that share a document and stand side by side are under way together: the first computes the
document's blocks, the others find them in the prefix cache.

Prompts are encoded here, without further special tokens, and answers decoded here, as the
transformers back end does. Defaults of the model's generation_config are not used. The score of one
token is its log-probability after the prompt, and several of them are one request. A longer one
asks for the log-probabilities of the prompt; vLLM would not read the prefix cache for those,
because cached tokens have none. Only the continuation's are wanted, so the cache is read all the
same, and the few requests whose continuation itself was found in the cache are asked once more
without it.
"""

from __future__ import annotations

import gc
import math
import os
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeVar

from schemas.errors import UserError
from stages.llm.answer import NO_NUMBER, Answer, scored
from stages.llm.backends.choices import by_prompt, chosen, is_choice
from stages.llm.backends.encoding import Encoder
from stages.llm.kv_cache import (
    BYTES,
    GIB,
    Room,
    read_config,
    require_cache,
    stored_dtype,
    token_bytes,
    weight_bytes,
)
from stages.llm.memory import available
from stages.llm.model import Model
from stages.llm.request import Request, Sampling
from stages.llm.tokenizer import end_tokens, load_tokenizer
from stages.runtime.progress import say
from stages.runtime.vllm import VllmSettings

Asked = TypeVar("Asked")
"""A request to generate, or the requests that are scored together."""

_KEYS = "runtime.llm.vllm"
_CPU_CACHE_GIB = 4.0
_CPU_BLOCK = 32
_CPU_STEP = 4096
_INSTALL = (
    "pip install 'longline[cpu]' or 'longline[gpu]' (README.md says how on a CPU), or set "
    "runtime.llm.backend to transformers or server"
)


class VllmBackend:
    """A started engine. `adapter` goes with every request; `ahead` is how many are under way."""

    def __init__(self, engine: Any, encoder: Encoder, adapter: Any, ahead: int) -> None:
        self.engine = engine
        self.encoder = encoder
        self.adapter = adapter
        self.ahead = ahead
        declared = engine.model_config.try_get_generation_config().get("eos_token_id")
        self.ends = end_tokens(encoder.tokenizer, declared)
        self._names = count()

    @property
    def window(self) -> int:
        window: int = self.engine.model_config.max_model_len
        return window

    def encode(self, requests: Sequence[Request]) -> list[array[int]]:
        return self.encoder.encode(requests)

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[str, Answer]]:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        def prepare(request: Request) -> tuple[list[int], Any]:
            schema = request.schema
            return self.encoder.prompt(request), SamplingParams(
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_new_tokens,
                seed=request.seed,
                logprobs=0,  # of the tokens drawn: they tell whether the model gave numbers at all
                flat_logprobs=True,
                detokenize=False,
                structured_outputs=None if schema is None else StructuredOutputsParams(json=schema),
            )

        self._check_schemas(requests, prepare)
        for request, output, seconds in self._run(requests, prepare):
            yield request.id, self._generated(output, seconds)

    def score(self, requests: Sequence[Request]) -> Iterator[tuple[str, Answer]]:
        anew = []
        parts = by_prompt(requests, self.encoder)
        for part, output, seconds in self._run(parts, self._scoring(cached=True)):
            rest = self.encoder.continuation(part[0])
            if isinstance(output, Answer):
                yield from ((request.id, output) for request in part)
            elif len(rest) == 1:
                (found,) = output.outputs[0].logprobs
                tokens = (self.encoder.continuation(request)[0] for request in part)
                chances = [found[token].logprob for token in tokens]
                yield from chosen(part, chances, seconds, **_counts(output))
            elif (values := _logprobs(output, rest)) is None:
                anew.append(part)
            else:
                yield part[0].id, scored(values, seconds=seconds, **_counts(output))
        for part, output, seconds in self._run(anew, self._scoring(cached=False)):
            values = _logprobs(output, self.encoder.continuation(part[0])) or []
            yield part[0].id, scored(values, seconds=seconds, **_counts(output))

    def close(self) -> None:
        """Stop the engine and give its memory back."""
        if self.engine is None:
            return
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        self.engine.engine_core.shutdown()
        self.engine = None
        gc.collect()
        cleanup_dist_env_and_memory()

    # -- requests on their way through the engine ----------------------------------------------

    def _run(
        self, asked: Sequence[Asked], prepare: Callable[[Asked], tuple[list[int], Any]]
    ) -> Iterator[tuple[Asked, Any, float]]:
        """(what was asked, what the engine gave or a typed failure, seconds) as each ends."""
        from vllm.inputs import tokens_input

        waiting = iter(asked)
        under_way: dict[str, tuple[Asked, float]] = {}
        try:
            while True:
                for request in islice(waiting, self.ahead - len(under_way)):
                    tokens, params = prepare(request)
                    too_long = self._too_long(len(tokens), params.max_tokens)
                    if too_long is not None:
                        yield request, too_long, 0.0
                        continue
                    name = str(next(self._names))
                    self.engine.add_request(
                        name, tokens_input(tokens), params, lora_request=self.adapter
                    )
                    under_way[name] = request, time.monotonic()
                if not under_way:
                    return
                for output in self.engine.step():
                    if output.finished:
                        request, since = under_way.pop(output.request_id)
                        yield request, output, time.monotonic() - since
        finally:
            if under_way and self.engine is not None:
                self.engine.abort_request(list(under_way))

    def _too_long(self, tokens: int, room: int) -> Answer | None:
        if tokens + room <= self.window:
            return None
        detail = f"{tokens} tokens and {room} for the answer; the window is {self.window}"
        return Answer("too_long", detail=detail, n_prompt_tokens=tokens)

    def _generated(self, output: Any, seconds: float) -> Answer:
        if isinstance(output, Answer):
            return output
        completion = output.outputs[0]
        tokens = list(completion.token_ids)
        reason = completion.finish_reason
        if reason == "stop" and tokens and tokens[-1] in self.ends:
            tokens.pop()
        common: dict[str, Any] = _counts(output) | {"n_tokens": len(tokens), "seconds": seconds}
        if reason not in ("stop", "length"):
            return Answer("malformed", detail=f"the engine ended it with '{reason}'", **common)
        if math.isnan(completion.cumulative_logprob):
            return Answer("nan", detail=NO_NUMBER, **common)
        text = self.encoder.tokenizer.decode(tokens, skip_special_tokens=False)
        if reason == "stop" and not text:
            return Answer("empty", detail="the model ended at once", **common)
        return Answer("ok" if reason == "stop" else "length", text, **common)

    def _scoring(self, cached: bool) -> Callable[[list[Request]], tuple[list[int], Any]]:
        """What is asked for a part: the words it chooses from, or the whole continuation."""
        from vllm import SamplingParams

        def prepare(part: list[Request]) -> tuple[list[int], Any]:
            prompt = self.encoder.prompt(part[0])
            if not prompt:
                raise ValueError("nothing stands before the continuation")
            if is_choice(part[0], self.encoder):
                words = {self.encoder.continuation(request)[0] for request in part}
                return prompt, SamplingParams(
                    temperature=0.0, max_tokens=1, logprob_token_ids=sorted(words), detokenize=False
                )
            return [*prompt, *self.encoder.continuation(part[0])], SamplingParams(
                temperature=0.0,
                max_tokens=1,
                prompt_logprobs=0,
                flat_logprobs=True,
                detokenize=False,
                skip_reading_prefix_cache=not cached,
            )

        return prepare

    def _check_schemas(
        self, requests: Sequence[Request], prepare: Callable[[Request], tuple[list[int], Any]]
    ) -> None:
        """Have every schema compiled before anything is asked."""
        checked = set()
        for request in requests:
            if request.schema is None or request.schema in checked:
                continue
            checked.add(request.schema)
            config = self.engine.vllm_config
            try:
                prepare(request)[1].verify(
                    config.model_config, None, config.structured_outputs_config,
                    self.engine.get_tokenizer(),
                )  # fmt: skip
            except Exception as error:  # the grammar's own errors have no common type
                raise UserError(
                    f"vLLM cannot hold answers to a schema: {_line(error)} "
                    f"(schema: {request.schema[:200]})",
                    fix="say it in simpler terms of JSON schema (types, properties, enum, items)",
                ) from error


def _counts(output: Any) -> dict[str, int]:
    return {
        "n_prompt_tokens": len(output.prompt_token_ids),
        "n_cached_tokens": output.num_cached_tokens or 0,
    }


def _logprobs(output: Any, rest: list[int]) -> list[float] | None:
    """Those of the last tokens; None where the cache held some of them, which leaves them unset."""
    prompt = len(output.prompt_token_ids) - len(rest)
    if (output.num_cached_tokens or 0) >= prompt:
        return None
    tail = output.prompt_logprobs[len(output.prompt_logprobs) - len(rest) :]
    return [tail[place][token].logprob for place, token in enumerate(rest)]


def open_vllm(model: Model, settings: VllmSettings) -> VllmBackend:
    """Start the engine. `UserError` where vLLM, the model, its adapter or memory is not there."""
    if model.folder is None:
        raise UserError(
            f"vLLM loads a folder, but the model is the name '{model.name}'",
            fix="give the model's folder, or set runtime.llm.backend to server",
        )
    folder = Path(model.folder)
    config = read_config(folder)
    tokenizer = load_tokenizer(folder)
    prepare_environment()
    try:
        from vllm import LLM
        from vllm.platforms import current_platform
    except ImportError as error:
        raise UserError(f"vLLM cannot be imported: {_line(error)}", fix=_INSTALL) from error
    on_cpu = current_platform.is_cpu()
    arguments = engine_arguments(folder, config, settings, on_cpu)
    adapter, with_adapter = _adapter(model.adapter)
    _require_memory(folder, config, arguments, settings, on_cpu)
    say(f"starting vLLM for {folder}")
    try:
        engine = LLM(**arguments, **with_adapter).llm_engine
    except Exception as error:  # whatever the engine's start meets; its own words say what
        raise UserError(
            f"vLLM does not start for {folder}: {_line(error)}",
            fix=f"correct {_KEYS} in conf/runtime/ (memory: kv_cache_gib, max_model_len, "
            "gpu_memory_utilization), or set runtime.llm.backend to transformers",
        ) from error
    encoder = Encoder(tokenizer, model.thinking)
    return VllmBackend(engine, encoder, adapter, ahead=2 * settings.max_num_seqs)


def engine_arguments(
    folder: Path, config: dict[str, Any], settings: VllmSettings, on_cpu: bool
) -> dict[str, Any]:
    """The engine's arguments. One grammar library, so that no request falls to a second one."""
    window, step = settings.max_model_len, settings.max_num_batched_tokens
    whole = whole_prompts(config, window, step) if on_cpu else {}
    block = settings.block_size or (_CPU_BLOCK if on_cpu else None)
    cache = settings.kv_cache_gib or (_CPU_CACHE_GIB if on_cpu else None)
    return {
        "model": str(folder),
        "tensor_parallel_size": settings.tensor_parallel,
        "dtype": stored_dtype(config) if settings.dtype == "auto" else settings.dtype,
        "max_model_len": settings.max_model_len,
        "gpu_memory_utilization": settings.gpu_memory_utilization,
        "kv_cache_memory_bytes": None if cache is None else int(cache * GIB),
        "enable_prefix_caching": settings.prefix_caching,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "enforce_eager": settings.enforce_eager,
        "generation_config": "vllm",
        "trust_remote_code": False,
        "load_format": "safetensors",
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        **({} if block is None else {"block_size": block}),
        **whole,
    }


def whole_prompts(config: dict[str, Any], window: int | None, step: int | None) -> dict[str, Any]:
    """Arguments with which no prompt is computed in parts, for a CPU.

    vLLM 0.31 ends with an error there when a prompt with a seed is, since a CPU's random generator
    cannot be set back. `window` and `step` are what is asked for, null what vLLM would take.
    """
    longest = window or int(config.get("max_position_embeddings") or 0)
    return {
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(step or _CPU_STEP, longest),
    }


def prepare_environment() -> None:
    """What vLLM reads from the environment; what a user has set stays.

    The engine runs in this process: seeds then repeat, and no process is left when this one dies.
    """
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("DO_NOT_TRACK", "1")


def _adapter(path: str | None) -> tuple[Any, dict[str, Any]]:
    """The adapter as requests carry it, and the engine's arguments for it."""
    if path is None:
        return None, {}
    import json
    from typing import get_args

    from vllm.config.lora import MaxLoRARanks
    from vllm.lora.request import LoRARequest

    try:
        config = json.loads((Path(path) / "adapter_config.json").read_text(encoding="utf-8"))
        rank, targets = int(config["r"]), config.get("target_modules")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"no LoRA adapter at {path}: {error!r}",
            fix="name a folder with adapter_config.json and adapter_model.safetensors",
        ) from error
    ranks = sorted(get_args(MaxLoRARanks))
    if rank > ranks[-1]:
        raise UserError(f"the adapter at {path} has rank {rank}", allowed=[f"up to {ranks[-1]}"])
    most = next(each for each in ranks if each >= rank)
    arguments: dict[str, Any] = {"enable_lora": True, "max_lora_rank": most}
    if isinstance(targets, list):
        # Only these layers are prepared. vLLM would prepare the head too, and its head for adapters
        # fails on a CPU when log-probabilities of a prompt are asked.
        arguments["lora_target_modules"] = sorted({name.rpartition(".")[2] for name in targets})
    return LoRARequest("adapter", 1, path), arguments


def _require_memory(
    folder: Path,
    config: dict[str, Any],
    arguments: dict[str, Any],
    settings: VllmSettings,
    on_cpu: bool,
) -> None:
    """Refuse, before the engine starts, what its memory cannot hold."""
    parallel = settings.tensor_parallel
    precision = BYTES[arguments["dtype"]]
    free = available("cpu" if on_cpu else "cuda")
    own = int(config.get("max_position_embeddings") or 0)
    require_cache(
        str(folder),
        Room(
            free=free if on_cpu else int(free * settings.gpu_memory_utilization),
            cache=arguments["kv_cache_memory_bytes"],
            weights=weight_bytes(folder, config, precision) // parallel,
            token=token_bytes(config, precision, parallel),
            window=settings.max_model_len or own,
        ),
        _KEYS,
    )


def _line(error: BaseException) -> str:
    """The first line that says something, of an error of vLLM's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:500]
