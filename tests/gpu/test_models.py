"""Trained models on a device give what they give on the CPU, bit for bit; and ranks of several kinds share a run."""

import numpy as np
import pytest

from samebits import GptModel, GraphModel, LogicModel, SamebitsError
from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.families import discover, find_preset, find_task
from samebits.families.gpt import evaluation
from samebits.families.gpt.tokens import characters
from samebits.groups.torchrun import links_for
from samebits.training.params import weights_hash
from samebits.training.trainer import Trainer, resolve
from samebits.verify.gradients import spread_params
from tests.ranks import on_ranks


def gpt(dtype=np.float32):
    known = characters(["abcdefgh \n"], False)
    config = override(find_preset("gpt", "small"), {"context": 8, "vocab": known.size, "width": 8, "heads": 2})
    return GptModel(config, spread_params(discover()["gpt"], config).astype(dtype), known.arrays())


def test_logits(gpu):
    model, tokens = gpt(), np.arange(10).reshape(2, 5)
    assert model.logits(tokens, device=gpu).tobytes() == model.logits(tokens, 1).tobytes()


@pytest.mark.parametrize("how", [{"temperature": 1.0}, {"temperature": 0.0}, {"top_k": 3, "seed": 5}])
def test_text_past_the_context(gpu, how):
    model = gpt()
    drawn = model.generate("abc", tokens=13, samples=3, device=gpu, **how)
    assert drawn == model.generate("abc", tokens=13, samples=3, workers=1, **how)


def test_rewriting(gpu):
    config = override(find_preset("boolean", "small"), {"width": 8})
    model = GraphModel(config, spread_params(discover()["graph"], config).astype(np.float32), {})
    trees = [model.parse(text) for text in ("(and x (or x y))", "(not (not x))", "T")]
    assert model.edits(trees, device=gpu) == model.edits(trees, 1)
    found, wanted = model.predict(trees, device=gpu), model.predict(trees, 1)
    assert [(one.trees, one.ended) for one in found] == [(one.trees, one.ended) for one in wanted]


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("trajectory", [True, False])
def test_rollouts(gpu, soft, trajectory):
    family, draw = discover()["logic_ca"], np.random.default_rng(0)
    small = {"height": 5, "width": 7, "channels": 2, "kernels": 2, "update": (8, 4, 2)}
    config = override(find_preset("checkerboard", "small"), small)
    model = LogicModel(config, spread_params(family, config).astype(np.float32), family.constants(config))
    grids, fire = draw.integers(0, 2, (2, 5, 7, 2)), draw.integers(0, 2, (3, 5, 7))
    options = {"soft": soft, "trajectory": trajectory, "fire": fire}
    found, wanted = (model.rollout(grids, 3, **options, **where) for where in ({"device": gpu}, {"workers": 1}))
    assert found.tobytes() == wanted.tobytes()
    assert model.rollout(grids, 0, device=gpu).tobytes() == grids.astype(np.float32).tobytes()


def test_float64_is_for_the_cpu(gpu):
    with pytest.raises(SamebitsError, match="the weights are float64; a GPU computes in float32"):
        gpt(np.float64).logits([[1]], device=gpu)


def test_evaluations(gpu):
    model, family = gpt(), discover()["gpt"]
    config = resolve(family, override(find_preset("gpt", "small"), {"data": "generated", "context": 8, "width": 8}))
    data = family.load(config)
    model = GptModel(config, spread_params(family, config).astype(np.float32), family.constants(config))
    batch = family.evaluation(config, data, False)
    with Workers(2) as workers:
        wanted = evaluation.validate(model, batch, workers)
    assert evaluation.validate(model, batch, gpu) == wanted


@pytest.mark.parametrize("task", ["life", "boolean"])
def test_ranks_of_both_kinds_share_a_run(gpu, task):
    family, _ = find_task(task)
    config = resolve(family, override(find_preset(task, "small"), {"batch_size": 5}))

    def trained(device, links):
        trainer = Trainer(family, config, device, links=links_for(device, links))
        rows = [trainer.step() for _ in range(2)]
        return weights_hash(device.download(trainer.params)), rows

    def work(links):
        if links.rank == 1:
            return trained(gpu, links)
        with Workers(1) as workers:
            return trained(workers, links)

    with Workers(1) as alone:
        wanted = trained(alone, None)
    assert on_ranks(3, work, near=True) == [wanted] * 3
