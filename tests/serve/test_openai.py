"""The real openai client, unchanged: its own calls, and texts that are those of `samebits sample`."""

from __future__ import annotations

import json
import socket
import threading
import time

import openai
import pytest

import samebits
from samebits.families.gpt.batching import Batch
from samebits.serve import batcher
from tests.serve.conftest import serving

HANGS = 60  # seconds, only against a hang; no result depends on it


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(api_key="any", base_url=f"{server.url}/v1", max_retries=0, timeout=HANGS) as found:
        yield found


@pytest.fixture(scope="module")
def model(runs):
    return samebits.load(runs / "gpt")


def test_models_are_listed(client):
    assert [one.id for one in client.models.list()] == ["gpt"]
    assert client.models.retrieve("gpt").id == "gpt"
    assert client.models.retrieve("gpt@best").id == "gpt@best"


@pytest.mark.parametrize("settings", [{"temperature": 0.8}, {"temperature": 0.0}, {"temperature": 1.3, "top_p": 0.7}])
def test_a_text_is_the_one_that_sample_gives(client, model, settings):
    answer = client.completions.create(model="gpt", prompt="the ", max_tokens=50, seed=7, n=3, **settings)
    assert [one.text for one in answer.choices] == model.generate("the ", tokens=50, seed=7, samples=3, **settings)
    assert [one.finish_reason for one in answer.choices] == ["length"] * 3
    assert answer.usage.prompt_tokens == 4
    assert answer.usage.completion_tokens == 150


def test_top_k_and_an_empty_prompt(client, model):
    answer = client.completions.create(model="gpt", prompt="", max_tokens=30, seed=1, extra_body={"top_k": 2})
    assert answer.choices[0].text == model.generate("", tokens=30, seed=1, temperature=1.0, top_k=2)[0]


def test_streamed_pieces_make_the_same_text(client, model):
    stream = client.completions.create(
        model="gpt", prompt="fox", max_tokens=60, seed=3, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
    assert text == model.generate("fox", tokens=60, seed=3, temperature=1.0)[0]
    assert len(chunks) > 1
    assert chunks[-1].usage.completion_tokens == 60


def test_many_at_once_are_each_the_one_written_alone(client, model):
    """More than there are places, of different lengths: who else is served changes nothing."""
    found = {}

    def ask(number):
        answer = client.completions.create(
            model="gpt", prompt="the lazy "[: 1 + number % 9], max_tokens=10 + number, seed=number
        )
        found[number] = answer.choices[0].text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(80)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(80):
        prompt = "the lazy "[: 1 + number % 9]
        assert found[number] == model.generate(prompt, tokens=10 + number, seed=number, temperature=1.0, workers=1)[0]


@pytest.mark.parametrize("stream", [False, True])
def test_stop_sequences_end_a_text_before_them(client, model, stream):
    whole = model.generate("the ", tokens=60, seed=5, temperature=1.0)[0]
    stop = whole[20:23]
    answer = client.completions.create(
        model="gpt", prompt="the ", max_tokens=60, seed=5, stop=[stop, "\0"], stream=stream
    )
    choices = [chunk.choices[0] for chunk in answer] if stream else [answer.choices[0]]
    assert "".join(one.text for one in choices) == whole[: whole.index(stop)]
    assert choices[-1].finish_reason == "stop"


def test_logprobs_and_echo(client, model):
    answer = client.completions.create(model="gpt", prompt="the ", max_tokens=5, seed=2, logprobs=3, echo=True)
    told = answer.choices[0].logprobs
    text = answer.choices[0].text
    assert text.startswith("the ")
    assert "".join(told.tokens) == text
    assert [text[at : at + 1] for at in told.text_offset] == told.tokens
    assert told.token_logprobs[0] is None
    assert all(-30 < value <= 0 for value in told.token_logprobs[1:])
    assert all(len(one) == 3 for one in told.top_logprobs[1:])
    # The prompt is scored by the forward pass, what follows by the cache: they agree where they meet.
    again = client.completions.create(model="gpt", prompt=text, max_tokens=0, logprobs=3, echo=True)
    assert again.choices[0].logprobs.token_logprobs[1:] == pytest.approx(told.token_logprobs[1:], abs=1e-4)


def test_prompts_as_tokens_and_several_of_them(client, model):
    tokens = model.vocabulary.encode("the ").tolist()
    by_text = client.completions.create(model="gpt", prompt=["the ", "fox"], max_tokens=9, seed=4, n=2)
    by_tokens = client.completions.create(model="gpt", prompt=[tokens], max_tokens=9, seed=4, n=2)
    assert [one.index for one in by_text.choices] == [0, 1, 2, 3]
    assert [one.text for one in by_text.choices[:2]] == [one.text for one in by_tokens.choices]


def test_a_text_without_a_seed_can_be_had_again(client):
    first, second = (client.completions.create(model="gpt", prompt="the ", max_tokens=20) for _ in range(2))
    again = client.completions.create(model="gpt", prompt="the ", max_tokens=20, seed=first.seed)
    assert first.seed != second.seed
    assert again.choices[0].text == first.choices[0].text
    assert first.system_fingerprint.startswith("sha256:")


def test_what_is_refused_says_the_rule(client):
    with pytest.raises(openai.NotFoundError, match="the model 'nobody' does not exist here"):
        client.completions.create(model="nobody", prompt="a")
    with pytest.raises(openai.NotFoundError, match="is a graph run, which writes no text"):
        client.completions.create(model="boolean", prompt="a")
    with pytest.raises(openai.BadRequestError, match="prompt has 17 tokens; it must have at most 16") as error:
        client.completions.create(model="gpt", prompt="the lazy dog. the")
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="no token for 'ß'"):
        client.completions.create(model="gpt", prompt="ß")
    with pytest.raises(openai.BadRequestError, match="temperature is -1"):
        client.completions.create(model="gpt", prompt="a", temperature=-1)
    with pytest.raises(openai.BadRequestError, match="there is no argument 'colour'"):
        client.completions.create(model="gpt", prompt="a", extra_body={"colour": 1})


def test_keys(runs):
    with serving(runs, key="a-long-key") as server:
        with openai.OpenAI(api_key="another-key", base_url=f"{server.url}/v1", max_retries=0) as wrong:
            with pytest.raises(openai.AuthenticationError, match="the key is wrong"):
                wrong.models.list()
            with pytest.raises(openai.AuthenticationError):
                wrong.completions.create(model="gpt", prompt="a")
        with openai.OpenAI(api_key="a-long-key", base_url=f"{server.url}/v1", max_retries=0) as right:
            assert [one.id for one in right.models.list()] == ["gpt"]
        page = server.get("/")
        assert page.status_code == 401
        assert "asks for the key" in page.text
        assert server.http.post("/key", data={"key": "wrong"}).status_code == 401
        assert server.http.post("/key", data={"key": "a-long-key"}).status_code == 303  # and a cookie
        assert server.get("/").status_code == 200
        assert "a-long-key" not in str(server.http.cookies)


def raw_request(server, **asked):
    """A connection that has asked and reads nothing yet."""
    body = json.dumps({"model": "gpt", "prompt": "the ", "seed": 1, **asked}).encode()
    headers = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    head = f"POST /v1/completions HTTP/1.1\r\n{headers}\r\n\r\n"
    link = socket.create_connection(("127.0.0.1", server.port))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.sendall(head.encode() + body)
    return link


def until(condition):
    end = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_vanishes_frees_its_place(server, stream):
    link = raw_request(server, max_tokens=100_000, stream=stream)
    until(lambda: server.served.batcher.placed == 1)
    link.close()
    until(lambda: server.served.batcher.placed == 0)


def test_slow_readers_hold_nobody_up(server, client, monkeypatch):
    """They fill all places, read nothing, and are set aside when others come."""
    monkeypatch.setattr(batcher, "MOST_UNREAD", 16)
    links = [raw_request(server, max_tokens=100_000, stream=True, n=32) for _ in range(2)]
    until(lambda: server.served.batcher.placed == batcher.PLACES)
    answer = client.completions.create(model="gpt", prompt="the ", max_tokens=20, seed=1)
    assert len(answer.choices[0].text) > 0
    for link in links:
        link.close()
    until(lambda: server.served.batcher.placed == 0)


class FailingOnce:
    """A function that raises an error the first time, for what `concerns` says it concerns."""

    def __init__(self, function, error, concerns=lambda *args: True):
        self.function, self.error, self.concerns = function, error, concerns

    def __call__(self, *args):
        if self.error is not None and self.concerns(*args):
            error, self.error = self.error, None
            raise error
        return self.function(*args)


def asks_for_seed_99(place, tokens, how, *others):
    return how.seed == 99


@pytest.mark.parametrize(
    ("owner", "name", "model_name", "concerns"),
    [
        (batcher, "Group", "gpt@10", lambda *args: True),  # while a request is admitted
        (Batch, "put", "gpt", lambda batch, *args: asks_for_seed_99(*args)),  # while its text takes a place
        (batcher, "written", "gpt", lambda token, logits, logprobs: logprobs == 7),  # when its token is read
        (Batch, "step", "gpt", lambda *args: True),
        (batcher.Batcher, "_admit", "gpt", lambda *args: True),
    ],
)
def test_an_error_ends_the_request_it_concerns(server, client, model, monkeypatch, owner, name, model_name, concerns):
    """And the thread that writes goes on: the next request is answered."""
    server.served.batcher.groups.clear()
    failing = FailingOnce(getattr(owner, name), MemoryError(), concerns)
    monkeypatch.setattr(owner, name, lambda *args: failing(*args))
    with pytest.raises(openai.InternalServerError, match="the text could not be written: not enough memory"):
        client.completions.create(model=model_name, prompt="the ", max_tokens=9, seed=99, logprobs=7)
    answer = client.completions.create(model="gpt", prompt="the ", max_tokens=9, seed=1)
    assert answer.choices[0].text == model.generate("the ", tokens=9, seed=1, temperature=1.0)[0]
    assert server.served.batcher.placed == 0


def test_an_error_of_one_text_leaves_others_that_are_being_written(server, client, model, monkeypatch):
    put = Batch.put

    def failing(batch, *args):
        if asks_for_seed_99(*args):
            raise OverflowError("too large")
        put(batch, *args)

    monkeypatch.setattr(Batch, "put", failing)
    stream = client.completions.create(model="gpt", prompt="the ", max_tokens=2000, seed=5, stream=True)
    first = next(stream).choices[0].text
    with pytest.raises(openai.InternalServerError, match="could not be written: OverflowError: too large"):
        client.completions.create(model="gpt", prompt="the ", max_tokens=9, seed=99)
    rest = "".join(chunk.choices[0].text for chunk in stream)
    assert first + rest == model.generate("the ", tokens=2000, seed=5, temperature=1.0)[0]


def test_a_thread_that_cannot_begin_answers_in_words(runs, monkeypatch):
    """Every request, those that came before it failed and those after it, instead of none for ever."""

    def no_workers(count):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(batcher, "Workers", no_workers)
    monkeypatch.setattr(threading, "excepthook", lambda given: None)
    with serving(runs) as server:
        asked = {"model": "gpt", "prompt": "the ", "max_tokens": 3}
        for _ in range(2):
            answer = server.http.post("/v1/completions", json=asked)
            assert answer.status_code == 500
            assert "RuntimeError: can't start new thread" in answer.json()["error"]["message"]
