"""What one can do with a trained GPT besides training it."""

from __future__ import annotations

from weft.engine.family import Report
from weft.engine.workers import Workers
from weft.families.gpt.model import GptModel


def report(model: GptModel, workers: Workers) -> Report:
    raise NotImplementedError
