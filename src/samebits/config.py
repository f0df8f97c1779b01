"""Configs: strict models, TOML files and --set key=value. An unknown key is an error that names the near ones."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from samebits.errors import SamebitsError, nearest

# Marks keys that change when a run pauses, what it prints or how much memory it takes, but not one bit of its result.
# Of paths, what lies there counts: its hash is a key of its own, or it is in the checkpoint.
OUTSIDE_HASH: dict[str, Any] = {"outside_hash": True}

C = TypeVar("C", bound="TrainConfig")


class TrainConfig(BaseModel):
    """The keys every family has. 0 turns clipping, evaluation and early stopping off."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: int = Field(0, ge=0, lt=2**63, description="inputs, masks and initial values are drawn from it")
    steps: int = Field(1000, ge=1, description="optimiser steps", json_schema_extra=OUTSIDE_HASH)
    batch_size: int = Field(1, ge=1, le=65_536, description="samples a step")
    micro_batches: int = Field(
        1, ge=1, description="cut the batch into this many parts, one after the other", json_schema_extra=OUTSIDE_HASH
    )
    slot_memory: int = Field(
        256, ge=1, description="MB for gradients in flight; more work runs in waves", json_schema_extra=OUTSIDE_HASH
    )

    lr: float = Field(1e-3, gt=0, description="learning rate")
    schedule: Literal["constant", "cosine", "hold-cosine", "plateau"] = "constant"
    schedule_steps: int | None = Field(None, ge=1, description="length of the schedule; default: steps")
    warmup_steps: int = Field(0, ge=0, description="linear warm-up")
    hold: float = Field(0.6, ge=0, le=1, description="hold-cosine: the part of the schedule at the full rate")
    min_lr: float = Field(0.0, ge=0, description="where cosine ends, and the floor of plateau")
    plateau_factor: float = Field(0.5, gt=0, lt=1)
    plateau_patience: int = Field(30, ge=1, description="evaluations without improvement before a cut")
    plateau_cuts: int = Field(3, ge=0)

    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    eps: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    clip_element: float = Field(0.0, ge=0, description="clip each gradient element to ± this; 0: off")
    clip_norm: float = Field(0.0, ge=0, description="scale the gradient down to this norm; 0: off")

    log_every: int = Field(10, ge=1, json_schema_extra=OUTSIDE_HASH)
    eval_every: int = Field(100, ge=0, description="evaluate every so many steps; 0: never")
    eval_samples: int = Field(8, ge=1)
    early_stop: int = Field(0, ge=0, description="stop after this many evaluations without improvement; 0: off")
    checkpoint_every: int = Field(100, ge=1, json_schema_extra=OUTSIDE_HASH)
    keep: int = Field(
        3, ge=1, description="how many checkpoints stay, besides the best", json_schema_extra=OUTSIDE_HASH
    )

    @model_validator(mode="after")
    def _check_schedule(self) -> TrainConfig:
        if self.min_lr > self.lr:
            raise ValueError(f"min_lr is {self.min_lr}; it must not be above lr, {self.lr}; lower it")
        if self.schedule == "plateau" and self.eval_every == 0:
            raise ValueError(
                "schedule is plateau and eval_every is 0; a plateau is seen at evaluations; set eval_every"
            )
        return self


def outside_hash(model: type[TrainConfig]) -> set[str]:
    """The keys of a config that decide no bit of a result."""
    return {name for name, field in model.model_fields.items() if field.json_schema_extra == OUTSIDE_HASH}


def build(model: type[C], values: Mapping[str, Any]) -> C:
    """A checked config, or one message that names the value, the rule and the remedy."""
    for key in values:
        if key not in model.model_fields:
            raise SamebitsError(f"there is no config key {key!r}; {nearest(key, model.model_fields)}")
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise SamebitsError("; ".join(_problem(item) for item in error.errors())) from None


def _problem(item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    rule = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if not key:
        return str(rule)
    if item["type"] == "too_short":
        rule = f"a list of at least {item['ctx']['min_length']}"
    elif item["type"] == "too_long":
        rule = f"a list of at most {item['ctx']['max_length']}"
    elif item["type"] == "missing":
        key, rule = key.rpartition(".")[0], "a longer list"
    flag = {"batch_size": "--batch-size", "steps": "--steps", "seed": "--seed", "keep": "--keep"}.get(key)
    remedy = f"set {flag}" if flag else f"use --set {key.split('.')[0]}=…"
    return f"{key} is {item['input']!r}; it must be {rule}; {remedy}"


def override(config: C, settings: Mapping[str, Any]) -> C:
    """The config with some keys replaced, checked anew."""
    return build(type(config), {**config.model_dump(), **settings})


def parse_setting(text: str) -> tuple[str, Any]:
    """key=value as on the command line; the value is TOML, or else a plain string."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise SamebitsError(f"--set is {text!r}; it must be key=value; for example --set lr=0.05")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dict, or an error that says what is wrong with it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SamebitsError(f"cannot read {path}: {error}; name a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise SamebitsError(f"{path} is not valid TOML: {error}; fix that line") from None


def to_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of plain values as TOML. Keys without a value are left out: TOML has no null."""
    lines: list[str] = []
    for name, table in tables.items():
        lines.append(f"[{name}]")
        # JSON's strings, numbers, booleans and arrays are TOML's too.
        lines += [
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items() if value is not None
        ]
        lines.append("")
    return "\n".join(lines)


def config_hash(model: type[TrainConfig], family: str, task: str, values: Mapping[str, Any]) -> str:
    """What must be equal for a checkpoint to be continued exactly: the values as config.toml has them.

    Keys that a later version adds are not in an old run's file, so its hash stays what it was.
    """
    outside = outside_hash(model)
    kept = {key: value for key, value in values.items() if key not in outside and value is not None}
    return hashlib.sha256(json.dumps([family, task, kept], sort_keys=True).encode()).hexdigest()
