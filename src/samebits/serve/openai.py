"""OpenAI's completions for runs that write text: the requests that their client sends, and the answers it reads."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from samebits.config import problems
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.serve.batcher import Batcher, Text, Written
from samebits.serve.models import Loaded
from samebits.serve.writing import Logprobs, Writer, as_json, logprobs_of

MOST_TOKENS = 100_000  # of one text
MOST_TEXTS = 64  # of one request: prompts times n
MOST_LOGPROBS = 20
MOST_STOPS = 16
MOST_STOP = 1000  # characters
# Sending a piece costs more than writing a token: one reader alone gets each as it comes, a crowd larger ones, at most
# twenty a second each.
PAUSE, LONGEST_PAUSE = 0.0008, 0.05


class RefusedError(Exception):
    """A request that is not served, with its status and OpenAI's code for it."""

    def __init__(self, text: str, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(text)
        self.status, self.param, self.code = status, param, code


Token = Annotated[int, Field(ge=0)]


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool = False


class Asked(BaseModel):
    """The body of POST /v1/completions. top_k is ours; OpenAI's clients send it by extra_body."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    model: str
    prompt: str | list[str] | list[Token] | list[list[Token]] | None = None
    max_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = 16
    temperature: Annotated[float, Field(ge=0, le=1000)] | None = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    top_k: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = 0
    n: Annotated[int, Field(ge=1, le=MOST_TEXTS)] | None = 1
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    echo: bool | None = False
    user: str | None = None
    # What these models have not: only the value that changes nothing.
    suffix: None = None
    best_of: int | None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] | None = 0.0
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] | None = 0.0
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None


def parse(body: bytes) -> Asked:
    try:
        return Asked.model_validate_json(body)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            raise RefusedError('the body is no JSON object; send one, such as {"model": …, "prompt": …}') from None
        key, value, rule = next(problems(error))
        name = key.split(".")[0] or None
        if error.errors()[0]["type"] == "extra_forbidden":
            raise RefusedError(f"there is no argument {name!r} here; leave it out", param=name) from None
        told = f"{key} is {value}; it must be {rule}" if key else f"the request must be an object {rule}"
        raise RefusedError(told, param=name) from None


@dataclass
class Job:
    """A request, checked, with its texts ready to be written."""

    asked: Asked
    name: str  # the model's, as asked for
    loaded: Loaded
    seed: int
    prompts: list[str]
    texts: list[Text]
    writers: list[Writer]
    fresh: asyncio.Event
    began: int
    id: str
    heads: list[Logprobs | None]  # what `echo` tells of each prompt

    @property
    def n(self) -> int:
        return self.asked.n or 1

    def frame(self) -> dict[str, Any]:
        """What every answer begins with. The seed is told, so that a text can be had again."""
        about = {"id": self.id, "object": "text_completion", "created": self.began, "model": self.name}
        return {**about, "system_fingerprint": f"sha256:{self.loaded.hash[:16]}", "seed": self.seed}

    def usage(self) -> dict[str, int]:
        prompts = sum(text.prompt for text in self.texts[:: self.n])
        drawn = sum(text.taken for text in self.texts)
        return {"prompt_tokens": prompts, "completion_tokens": drawn, "total_tokens": prompts + drawn}


def prepare(asked: Asked, loaded: Loaded) -> Job:
    """Check what depends on the model, and set the texts up."""
    if asked.best_of not in (None, asked.n or 1):
        raise RefusedError(f"best_of is {asked.best_of}; it must be n; leave it out", param="best_of")
    most = 16 if asked.max_tokens is None else asked.max_tokens
    if most == 0 and not asked.echo:
        raise RefusedError("max_tokens is 0; it must be at least 1, or echo true; raise it", param="max_tokens")
    stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    if len(stops) > MOST_STOPS or not all(0 < len(stop) <= MOST_STOP for stop in stops):
        rule = f"up to {MOST_STOPS} texts of 1 to {MOST_STOP} characters"
        raise RefusedError(f"stop must be {rule}; change it", param="stop")
    seed = secrets.randbits(32) if asked.seed is None else asked.seed
    temperature = 1.0 if asked.temperature is None else asked.temperature
    model, fresh = loaded.texts, asyncio.Event()
    how = model.draw(temperature, asked.top_p or 1.0, asked.top_k or 0, seed)
    prompts, texts, writers, heads = [], [], [], []
    for tokens, shown in prompts_of(asked, loaded):
        head = echoed(loaded, tokens, asked.logprobs) if asked.echo and asked.logprobs is not None else None
        for sample in range(asked.n or 1):
            text = Text(list(tokens), how, sample, most, asked.logprobs, fresh)
            text.over, text.end = most == 0, "length" if most == 0 else None
            prompts.append(shown)
            texts.append(text)
            heads.append(head)
            offset = len(shown) if asked.echo else 0
            writers.append(Writer(model.vocabulary, stops, offset, asked.logprobs is not None))
    return Job(
        asked, asked.model, loaded, seed, prompts, texts, writers, fresh, int(time.time()),
        f"cmpl-{secrets.token_hex(12)}", heads,
    )  # fmt: skip


def prompts_of(asked: Asked, loaded: Loaded) -> list[tuple[list[int], str]]:
    """Every prompt as tokens and as text."""
    given: Any = "" if asked.prompt is None else asked.prompt
    if isinstance(given, str) or (given and isinstance(given[0], int)):
        given = [given]
    if not 1 <= len(given) * (asked.n or 1) <= MOST_TEXTS:
        raise RefusedError(
            f"prompt has {len(given)} texts and n is {asked.n or 1}; together they must make 1 to {MOST_TEXTS} texts; "
            "send several requests", param="prompt",
        )  # fmt: skip
    model, found = loaded.texts, []
    vocabulary, context = model.vocabulary, model.context
    for one in given:
        if isinstance(one, str):
            try:
                tokens, shown = model.encode(one), one
            except SamebitsError as error:
                raise RefusedError(str(error), param="prompt") from None
        else:
            if not one or max(one) >= vocabulary.size:
                rule = f"1 or more tokens, each below {vocabulary.size}"
                raise RefusedError(f"prompt must be {rule}; encode it with this model's vocabulary", param="prompt")
            tokens, shown = one, vocabulary.decode(np.array(one))
        if len(tokens) > context:
            raise RefusedError(
                f"prompt has {len(tokens)} tokens; it must have at most {context}, this model's context; shorten it",
                param="prompt", code="context_length_exceeded",
            )  # fmt: skip
        found.append((tokens, shown))
    return found


def echoed(loaded: Loaded, tokens: Sequence[int], logprobs: int | None) -> Logprobs:
    """The probabilities of a prompt's own tokens; nothing comes before the first."""
    vocabulary = loaded.texts.vocabulary
    with Workers(1) as alone:
        logits = loaded.texts.logits(tokens, alone).astype(np.float64)
    logits -= logits.max(1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    records, at = [(0, Written(tokens[0]))], len(vocabulary.decode(np.array(tokens[:1])))
    for token, row in zip(tokens[1:], logits, strict=False):
        likeliest = np.argsort(-row, kind="stable")[: logprobs or 0]
        told = Written(token, float(row[token]), tuple((int(one), float(row[one])) for one in likeliest))
        records.append((at, told))
        at += len(vocabulary.decode(np.array([token])))
    return logprobs_of(vocabulary, records)


def choice(index: int, text: str, logprobs: Logprobs | None, end: str | None) -> dict[str, Any]:
    told = as_json(logprobs) if logprobs is not None else None
    return {"text": text, "index": index, "logprobs": told, "finish_reason": end}


async def pieces(job: Job, batcher: Batcher) -> AsyncIterator[list[dict[str, Any]]]:
    """What comes, as choices, a list each time there is something; the places are given back at the end, however it
    comes."""
    waiting, wanted = dict(enumerate(job.texts)), job.asked.logprobs is not None
    try:
        if drawn := [text for text in job.texts if not text.over]:
            batcher.submit(job.loaded.key, job.loaded.texts, drawn)
        if job.asked.echo:
            yield [choice(i, prompt, job.heads[i], None) for i, prompt in enumerate(job.prompts)]
        while waiting:
            found = []
            for index, text in list(waiting.items()):
                over = text.over
                tokens = batcher.take(text)
                if not tokens and not over:
                    continue
                if over and text.end not in ("stop", "length"):
                    raise RefusedError(f"the text could not be written: {text.end}", 500)
                piece = job.writers[index].feed(tokens, text.end if over else None)
                if piece.end is not None:
                    del waiting[index]
                    batcher.drop([text])
                if piece.text or piece.end is not None or (wanted and piece.logprobs.tokens):
                    found.append(choice(index, piece.text, piece.logprobs if wanted else None, piece.end))
            if found:
                yield found
                await asyncio.sleep(min(LONGEST_PAUSE, PAUSE * (batcher.placed - 1)))
            elif waiting:
                await job.fresh.wait()
            job.fresh.clear()
    finally:
        batcher.drop(list(waiting.values()))


async def streamed(job: Job, batcher: Batcher) -> AsyncIterator[str]:
    """Server-sent events: a chunk each time there is more."""
    options = job.asked.stream_options
    usage = {"usage": None} if options and options.include_usage else {}
    try:
        async for found in pieces(job, batcher):
            for one in found:
                yield f"data: {json.dumps({**job.frame(), 'choices': [one], **usage}, ensure_ascii=False)}\n\n"
    except RefusedError as error:
        yield f"data: {json.dumps({'error': {'message': str(error), 'type': 'server_error'}})}\n\n"
        return
    if usage:
        yield f"data: {json.dumps({**job.frame(), 'choices': [], 'usage': job.usage()})}\n\n"
    yield "data: [DONE]\n\n"


async def whole(job: Job, batcher: Batcher) -> dict[str, Any]:
    """The answer in one."""
    choices = [
        choice(i, "", Logprobs() if job.asked.logprobs is not None else None, None) for i in range(len(job.texts))
    ]
    async for found in pieces(job, batcher):
        for one in found:
            kept = choices[one["index"]]
            kept["text"] += one["text"]
            kept["finish_reason"] = one["finish_reason"]
            for key, values in (one["logprobs"] or {}).items():
                kept["logprobs"][key] += values
    return {**job.frame(), "choices": choices, "usage": job.usage()}
