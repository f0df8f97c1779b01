"""The small GPT as a family: what the engine needs to train it."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from samebits.arithmetic import rng
from samebits.arithmetic.arrays import Array, aligned
from samebits.arithmetic.elementary import normal
from samebits.arithmetic.rng import Purpose
from samebits.config import override
from samebits.devices.cpu.workers import Workers
from samebits.errors import SamebitsError
from samebits.families.gpt import data, evaluation, gpu, reference, transformer, verbs
from samebits.families.gpt.config import TASKS, GptConfig, layout
from samebits.families.gpt.model import GptModel
from samebits.families.gpt.options import OPTIONS
from samebits.families.gpt.text import GENERATED
from samebits.runs.init_from import begin_with, read_source
from samebits.training.contract import Batch, Constants, Family, Filled, Kernels, Layout, Metrics, Work
from samebits.training.params import spans, views
from samebits.training.parts import Bench, Glimpse, Measurement, Page, Peer, Start

DEVIATION = 0.02
SIZES = ("context", "width", "heads", "layers", "final_norm")


def prepare(config: GptConfig) -> GptConfig:
    """The vocabulary's size, the text's hash, and paths made absolute: resume finds them from anywhere."""
    if config.init_from:
        config = override(config, inherited_keys(config))
    found = data.prepare(config)
    path = {"data": str(Path(config.data).expanduser().resolve())} if config.data not in ("", GENERATED) else {}
    return override(config, {**found, **path})


def sampled(workers: Workers) -> list[Array]:
    """What a model that has learned nothing writes, longer than its context; and its logits."""
    small = override(TASKS["gpt"].presets["small"], {"data": GENERATED})
    assert isinstance(small, GptConfig)
    config = prepare(small)
    model = GptModel(config, init(config, np.float32), constants(config))
    texts = model.generate("ADA:", tokens=40, temperature=0.9, top_k=20, top_p=0.9, samples=3, workers=workers)
    tokens = model.vocabulary.encode("".join(texts))
    return [tokens, model.logits(tokens[None, : config.context], workers)]


def caveat(config: GptConfig) -> str:
    """The standard library is another text in another Python."""
    if config.data or config.init_from:
        return ""
    return (
        f"of the text of Python {platform.python_version()}: another version has another text, and so another hash; "
        f"the same everywhere: --data {GENERATED}, or a file of your own"
    )


def derived(values: Mapping[str, Any]) -> list[str]:
    """A number of characters follows from the text; one of byte pairs is asked for."""
    return ["text_sha256", "vocabulary_sha256", *(["vocab"] if values.get("tokenizer") == "char" else [])]


def inherited_keys(config: GptConfig) -> dict[str, str]:
    """What `init_from` decides. The sizes must be its own already; of these, heads and final_norm show in no shape."""
    source = read_source(config.init_from, "gpt")
    theirs = {key: source.values.get(key, getattr(config, key)) for key in SIZES}
    other = [key for key in SIZES if theirs[key] != getattr(config, key)]
    if other:
        mine = ", ".join(f"{key} is {getattr(config, key)}, there {theirs[key]}" for key in other)
        settings = " ".join(f"--set {key}={str(theirs[key]).lower()}" for key in other)
        raise SamebitsError(f"init_from {config.init_from} is a model of another size: {mine}; use {settings}")
    tokenizer = str(source.values.get("tokenizer", "char"))
    if config.tokenizer not in ("char", tokenizer):
        raise SamebitsError(
            f"tokenizer is {config.tokenizer}; init_from {config.init_from} has {tokenizer}, and its weights know no "
            "other; leave it out"
        )
    # The checkpoint itself: should this run begin again, it begins with the same weights.
    return {"init_from": str(source.path.resolve()), "tokenizer": tokenizer}


def begin(config: GptConfig, layout: Layout, constants: Constants, params: Array) -> None:
    """The weights of `init_from`, where there is one."""
    if config.init_from:
        begin_with(read_source(config.init_from, FAMILY.name), layout, constants, params)


def init(config: GptConfig, dtype: DTypeLike) -> Array:
    """GPT-2's: normal with deviation 0.02; what writes to the residual stream is smaller, for there are 2L of it."""
    table = layout(config)
    params = aligned(sum(math.prod(shape) for _, shape in table), dtype)
    for index, (name, start, end, _) in enumerate(spans(table)):
        scale = DEVIATION / math.sqrt(2 * config.layers) if name.endswith((".out", ".down")) else DEVIATION
        params[start:end] = scale * _normal(end - start, config.seed, index)
    return params


def _normal(count: int, seed: int, index: int) -> Array:
    """Normal numbers from indexed words."""
    words = rng.words((2, -(-count // 2)), seed, Purpose.INIT, 0, extra=index)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    out = np.empty_like(uniform)
    normal(out, uniform)
    return out.reshape(-1)[:count]


def constants(config: GptConfig) -> Constants:
    return data.vocabulary(config).arrays()


def slot_size(config: GptConfig) -> int:
    return sum(math.prod(shape) for _, shape in layout(config))


def group_bytes(config: GptConfig) -> int:
    """Tokens in and out: activations lie with the workers, one unit each, not with the groups."""
    return 8 * config.unit_samples * config.context


def groups(config: GptConfig, batch: Batch) -> Array:
    """A unit is a group is `unit_samples` samples."""
    return np.ones(-(-batch.samples // config.unit_samples), np.int64)


def gradient(work: Work[GptConfig, Workers], slots: Array, losses: Array) -> Filled:
    samples = transformer.cut(work.config, work.batch, work.wave)
    transformer.gradient(work.config, work.params, samples, slots, losses, work.device)
    return Filled()


def reference_loss(config: GptConfig, constants: Constants, params: Array, batch: Batch) -> float:
    windows = batch.arrays
    named = views(layout(config), params)
    return reference.loss(config, named, windows.inputs, windows.targets, int(windows.step[0])) / batch.divisor


def products(config: GptConfig) -> list[tuple[int, int, int, int]]:
    """(rows, inputs, outputs, count) of a step's matrix products, forward and twice back, a short last unit too."""
    D, L = config.width, config.layers
    whole, rest = divmod(config.batch_size, config.unit_samples)
    units = [(config.unit_samples * config.context, whole), (rest * config.context, 1)]  # rows, how many units
    shapes = [(D, 3 * D, L), (D, D, L), (D, 4 * D, L), (4 * D, D, L), (D, config.symbols, 1)]
    return [
        (*product, count * times)
        for M, times in units
        if M and times
        for inputs, outputs, count in shapes
        for product in ((M, inputs, outputs), (M, outputs, inputs), (inputs, M, outputs))
    ]


def flops(config: GptConfig) -> float:
    """Matrix products, and attention as if it were not causal, as the field counts."""
    heads = 6 * 2 * config.layers * config.batch_size * config.context**2 * config.width
    return 2.0 * sum(m * k * n * count for m, k, n, count in products(config)) + heads


WHOLE_STEP = {"compiled": True, "graph": True}  # of a peer on a GPU

FAMILY = Family(
    name="gpt",
    config=GptConfig,
    tasks=TASKS,
    layout=layout,
    init=init,
    constants=constants,
    slot_size=slot_size,
    group_bytes=group_bytes,
    load=data.load,
    batch=data.batch,
    evaluation=data.evaluation,
    groups=groups,
    kernels={"cpu": Kernels(gradient, evaluation.evaluate), "gpu": gpu.KERNELS},
    reference=reference_loss,
    metrics=Metrics(
        loss="loss",
        columns=evaluation.COLUMNS,
        batch=(),
        evaluation=("loss", "perplexity", "bits_per_byte"),
        best="loss",
    ),
    summarise=evaluation.summarise,
    model=GptModel,
    prepare=prepare,
    derived=derived,
    caveat=caveat,
    check_constants=data.check_constants,
    canary={"data": GENERATED},
    probes={"sampled text": sampled},
    report=evaluation.report,
    glimpse=Glimpse(verbs.glimpse, lambda config: config.sample_every),
    start=Start(begin, lambda config, checkpoint: override(config, {"init_from": str(checkpoint)})),
    verbs={"sample": verbs.sample, "export": verbs.export},
    options=OPTIONS,
    commands=("samebits sample DIR", "samebits export DIR"),
    page=Page("text", lambda config: {"context": config.context}, texts=f"{__package__}.serving:text_model"),
    bench=Bench(
        flops=flops,
        products=products,
        work=("tokens", lambda config: config.batch_size * config.context),
        peers_lack={"dropout": 0.0},
        peers=(
            Peer("PyTorch eager", f"{__package__}.peer_torch", ("torch",), {}, {"distributed": True}),
            Peer(
                "PyTorch compiled",
                f"{__package__}.peer_torch",
                ("torch",),
                {"compiled": True},
                {"compiled": True, "distributed": True},
            ),
        ),
        gpu_peers=(
            Peer("PyTorch eager", f"{__package__}.peer_torch", ("torch",)),
            Peer("PyTorch compiled", f"{__package__}.peer_torch", ("torch",), {"compiled": True}),
            Peer("PyTorch compiled, CUDA graph", f"{__package__}.peer_torch", ("torch",), WHOLE_STEP),
            # Other arithmetic: products of numbers with fewer digits, on tensor cores.
            Peer(
                "PyTorch compiled, CUDA graph, tf32",
                f"{__package__}.peer_torch",
                ("torch",),
                {**WHOLE_STEP, "arithmetic": "tf32"},
                tolerance=3e-3,
            ),
            Peer(
                "PyTorch compiled, CUDA graph, bf16",
                f"{__package__}.peer_torch",
                ("torch",),
                {**WHOLE_STEP, "arithmetic": "bf16"},
                tolerance=2e-2,
            ),
        ),
        measurements={
            "sampling": Measurement(
                "tokens a second with a cache of keys and values, and without",
                f"{__package__}.measure_sampling:sampling",
            )
        },
    ),
)
