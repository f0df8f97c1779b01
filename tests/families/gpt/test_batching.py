"""Many texts at once: each is, bit for bit, what it would be alone."""

from __future__ import annotations

import numpy as np
import pytest

from samebits.devices.cpu.workers import Workers
from samebits.families.gpt.batching import NONE, Batch
from samebits.families.gpt.sampling import Decoder, Settings
from samebits.training.parts import NO_TOKEN
from tests.families.gpt.test_sampling import make

TOKENS = 30  # of each text: the context, 17, is full on the way


def alone(model, prompt, settings, sample, team):
    decoder = Decoder(model, np.array(prompt, np.int32), settings, sample)
    decoder.advance(settings.tokens, team)
    return decoder.text[0, len(prompt) :].tolist()


def drawn_settings(rng, count):
    return [
        Settings(TOKENS, float(rng.choice([0.0, 0.7, 1.3])), float(rng.choice([0.8, 1.0])), int(rng.choice([0, 3])), i)
        for i in range(count)
    ]


@pytest.mark.parametrize(("final_norm", "width"), [(True, 20), (False, 132)])  # 132: heads of more than 32 numbers
def test_every_text_of_a_batch_is_the_one_written_alone(final_norm, width):
    """Of prompts of any length, longer than the context too, which begin at different times and leave in between."""
    model, rng = make(context=17, final_norm=final_norm, width=width), np.random.default_rng(0)
    count = 19
    prompts = [rng.integers(0, 12, rng.integers(1, 40)).tolist() for _ in range(count)]
    settings = drawn_settings(rng, count)
    written: list[list[int]] = [[] for _ in range(count)]
    waiting, places = list(range(count)), {}
    with Workers(2) as team:
        batch = Batch(model, 11, team)
        free = list(range(11))
        while waiting or places:
            for _ in range(min(2, len(free), len(waiting))):  # two more a step
                text, place = waiting.pop(0), free.pop()
                batch.put(place, prompts[text], settings[text].draw(model.vocabulary), text % 3, 0)
                places[place] = text
            out = batch.step(np.array(sorted(places), np.int64))
            for place, text in list(places.items()):
                if out[place] != NONE:
                    written[text].append(int(out[place]))
                if len(written[text]) == TOKENS:
                    free.append(place)
                    del places[place]
        wanted = [alone(model, prompts[i], settings[i], i % 3, team) for i in range(count)]
    assert written == wanted
    assert len({tuple(text) for text in written}) > count // 2


@pytest.mark.jit_off
def test_a_step_gives_the_logits_of_the_decoder():
    model = make(context=5, width=8, heads=2, layers=1)
    prompts, how = [[1, 2, 3], [4], [5, 6]], Settings(1, 0.0)
    with Workers(1) as team:
        batch = Batch(model, 3, team)
        for place, prompt in enumerate(prompts):
            batch.put(place, prompt, how.draw(model.vocabulary), 0, 0)
        batch.step(np.arange(3))
        for place, prompt in enumerate(prompts):
            decoder = Decoder(model, np.array(prompt, np.int32), how)
            decoder.advance(1, team)
            np.testing.assert_allclose(batch.logits[place], decoder.logits[0], rtol=1e-5, atol=1e-6)


def test_a_text_that_left_its_place_goes_on_as_if_it_had_not():
    model, settings = make(context=17), Settings(TOKENS, 0.9, seed=5)
    with Workers(1) as team:
        wanted = alone(model, [3, 1, 4], settings, 2, team)
        batch, tokens = Batch(model, 3, team), [3, 1, 4]
        for turn in range(6):  # at another place each time, five tokens long
            place = turn % 3
            batch.put(place, tokens, settings.draw(model.vocabulary), 2, len(tokens) - 3)
            wanted_now = len(tokens) + 5
            while len(tokens) < wanted_now:
                token = int(batch.step(np.array([place]))[place])
                tokens += [token] if token != NONE else []
    assert tokens[3:] == wanted


def test_a_place_that_reads_holds_nobody_up():
    """A long prompt takes several steps to be read; its neighbour draws a token in each of them."""
    model = make(context=64)
    with Workers(1) as team:
        batch = Batch(model, 2, team)
        how = Settings(10).draw(model.vocabulary)
        batch.put(0, [1] * 60, how, 0, 0)
        batch.put(1, [1], how, 0, 0)
        steps = [batch.step(np.array([0, 1])).tolist() for _ in range(4)]
    assert [row[0] == NONE for row in steps] == [True, True, True, False]
    assert all(row[1] != NONE for row in steps)


def test_a_place_that_reads_says_so_as_the_server_expects():
    assert NONE == NO_TOKEN
