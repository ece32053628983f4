"""Requests and responses of OpenAI's protocol, as plain values; nothing is sent here.

`api: vllm` also uses what vLLM adds: prompts as they are, without further special tokens; special
tokens left in the text; guided JSON on the completions endpoint; log-probabilities of the prompt.
Defaults that a model's own generation_config brings are switched off, as in every back end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from stages.llm import answer
from stages.llm.answer import Answer
from stages.llm.backends.faults import Malformed
from stages.llm.request import Request, Sampling

Payload = dict[str, Any]
_LIKELIEST = 20
_PLAIN = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "skip_special_tokens": False}


def generation(
    request: Request, sampling: Sampling, name: str, api: str, endpoint: str
) -> tuple[str, Payload]:
    """Path and body of a request for an answer."""
    body: Payload = {
        "model": name,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": request.seed,
    }
    chat = endpoint == "chat" or not isinstance(request.prompt, str)
    if chat:
        limit = "max_tokens" if api == "vllm" else "max_completion_tokens"
        body[limit] = sampling.max_new_tokens
        body["messages"] = messages(request)
    else:
        body["max_tokens"] = sampling.max_new_tokens
        body["prompt"] = request.prompt
    if api == "vllm":
        body |= _PLAIN
        if not chat:
            body["add_special_tokens"] = False
    if request.schema is not None and (chat or api == "vllm"):
        schema = {"name": "answer", "schema": json.loads(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return ("/chat/completions" if chat else "/completions"), body


def messages(request: Request) -> list[dict[str, str]]:
    """The turns of a request; a rendered prompt is one turn of the user."""
    if isinstance(request.prompt, str):
        return [{"role": "user", "content": request.prompt}]
    return [{"role": message.role, "content": message.content} for message in request.prompt]


def generated(response: Any) -> Answer:
    """The answer in a response of either endpoint. Raises `Malformed`."""
    choice = _choice(response)
    reason = choice.get("finish_reason")
    message = choice.get("message")
    refusal = message.get("refusal") if isinstance(message, dict) else None
    counts = _counts(response)
    if refusal or reason == "content_filter":
        return Answer("refusal", detail=str(refusal or "held back by a filter")[:300], **counts)
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if text is None and isinstance(message, dict):
        text = ""  # nothing but, say, reasoning
    if not isinstance(text, str):
        raise Malformed("a choice without text")
    if reason not in ("stop", "length"):
        raise Malformed(f"finish_reason is {reason!r}")
    if reason == "stop" and not text:
        return Answer("empty", detail="the model ended at once", **counts)
    return Answer("ok" if reason == "stop" else "length", text, **counts)


def scoring(tokens: Sequence[int], name: str) -> tuple[str, Payload]:
    """Path and body of a request for the log-probabilities of the prompt's own tokens (vLLM)."""
    return "/completions", {
        "model": name, "prompt": list(tokens), "max_tokens": 1, "temperature": 0.0,
        "prompt_logprobs": 0,
    }  # fmt: skip


def scored(response: Any, tokens: Sequence[int], continuation: int) -> Answer:
    """The log-probabilities of the last `continuation` of the tokens."""
    found = _choice(response).get("prompt_logprobs")
    if not isinstance(found, list) or len(found) != len(tokens):
        raise Malformed("prompt_logprobs are not one for each token of the prompt")
    start = len(tokens) - continuation
    values = []
    for token, entry in zip(tokens[start:], found[start:], strict=True):
        if not isinstance(entry, dict) or not isinstance(entry.get(str(token)), dict):
            raise Malformed(f"prompt_logprobs lack the token {token}")
        values.append(entry[str(token)].get("logprob"))
    return answer.scored(values, **_counts(response))


def choosing(prompt: Sequence[int], name: str) -> tuple[str, Payload]:
    """Path and body of a request for the likeliest tokens after the prompt (vLLM only).

    As many as a server gives unless it was started with more or fewer.
    """
    return "/completions", {
        "model": name, "prompt": list(prompt), "max_tokens": 1, "temperature": 1.0, "top_p": 1.0,
        "logprobs": _LIKELIEST, "return_tokens_as_token_ids": True, **_PLAIN,
    }  # fmt: skip


def likeliest(response: Any) -> tuple[dict[int, float | None], dict[str, Any]]:
    """Log-probability by token of the likeliest after the prompt, and the counts of tokens.

    Raises `Malformed`.
    """
    found = _choice(response).get("logprobs")
    places = found.get("top_logprobs") if isinstance(found, dict) else None
    if not isinstance(places, list) or not places or not isinstance(places[0], dict):
        raise Malformed("no top_logprobs in the response")
    try:
        tokens = {int(token.removeprefix("token_id:")): value for token, value in places[0].items()}
    except ValueError:
        raise Malformed("top_logprobs are not by token ids") from None
    return tokens, {name: n for name, n in _counts(response).items() if name != "n_tokens"}


def echoing(prompt: str, continuation: str, name: str) -> tuple[str, Payload]:
    """Path and body of a request that reads prompt and continuation back with log-probabilities."""
    return "/completions", {
        "model": name, "prompt": prompt + continuation, "max_tokens": 1, "temperature": 0.0,
        "echo": True, "logprobs": 1,
    }  # fmt: skip


def echoed(response: Any, prompt: str, continuation: str) -> Answer:
    """The log-probabilities of the continuation's tokens, found by where they stand in the text.

    The server has cut the whole text into tokens; one that spans both parts has no answer.
    """
    found = _choice(response).get("logprobs")
    if not isinstance(found, dict):
        raise Malformed("no logprobs in the echo")
    values, offsets = found.get("token_logprobs"), found.get("text_offset")
    if not isinstance(values, list) or not isinstance(offsets, list) or len(values) != len(offsets):
        raise Malformed("logprobs without text_offset")
    end = len(prompt) + len(continuation)
    if len(prompt) not in offsets:  # and will not be, however often it is asked
        detail = "a token spans the end of the prompt and the start of the continuation"
        return Answer("malformed", detail=detail, **_counts(response))
    kept = [v for v, at in zip(values, offsets, strict=True) if len(prompt) <= at < end]
    return answer.scored(kept, **_counts(response))


def _choice(response: Any) -> dict[str, Any]:
    choices = response.get("choices") if isinstance(response, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise Malformed("not one choice in the response")
    choice: dict[str, Any] = choices[0]
    return choice


def _counts(response: dict[str, Any]) -> dict[str, Any]:
    """Tokens as the server counted them; what it does not say is 0, or unknown for cached ones."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return {
        "n_prompt_tokens": _number(usage.get("prompt_tokens")),
        "n_tokens": _number(usage.get("completion_tokens")),
        "n_cached_tokens": cached if isinstance(cached, int) else None,
    }


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
