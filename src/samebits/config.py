"""Configs: strict models, TOML files and --set key=value. An unknown key is an error that names the near ones."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from samebits import files
from samebits.checks import MOST, can_be_written
from samebits.errors import SamebitsError, nearest
from samebits.printing import shown

# Marks keys that change when a run pauses, what it prints or how much memory it takes, but not one bit of its result.
# Of paths, what lies there counts: its hash is a key of its own, or it is in the checkpoint.
OUTSIDE_HASH: dict[str, Any] = {"outside_hash": True}

MOST_TOML = 1 << 24  # bytes of a file in a run folder; a sweep of 10,000 runs has some megabytes

C = TypeVar("C", bound="TrainConfig")


class TrainConfig(BaseModel):
    """The keys every family has. 0 turns clipping, evaluation and early stopping off."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    COSTS: ClassVar[dict[str, str]] = {
        "steps": "time, in proportion",
        "batch_size": "time, in proportion; memory until slot_memory is reached",
        "micro_batches": "a little time; saves memory",
        "slot_memory": "up to so much memory",
        "log_every": "when small: a row a step, and automata then also run every batch hard",
        "eval_every": "when small: the time of an evaluation each time",
        "eval_samples": "time of every evaluation, in proportion",
        "checkpoint_every": "when small: three times the weights are written each time",
        "keep": "disk: three times the weights for each",
    }

    seed: int = Field(0, ge=0, lt=2**63, description="inputs, masks and initial values are drawn from it")
    steps: int = Field(1000, ge=1, le=MOST, description="optimiser steps", json_schema_extra=OUTSIDE_HASH)
    batch_size: int = Field(1, ge=1, le=65_536, description="samples a step")
    micro_batches: int = Field(
        1,
        ge=1,
        le=65_536,
        description="cut the batch into this many parts, one after the other",
        json_schema_extra=OUTSIDE_HASH,
    )
    slot_memory: int = Field(
        256,
        ge=1,
        le=2**40,
        description="MB for gradients in flight; more work runs in waves",
        json_schema_extra=OUTSIDE_HASH,
    )

    lr: float = Field(1e-3, gt=0, le=1e38, description="learning rate")
    schedule: Literal["constant", "cosine", "hold-cosine", "plateau"] = Field(
        "constant", description="how the rate falls: not; along a cosine; held, then so; or cut where nothing improves"
    )
    schedule_steps: int | None = Field(None, ge=1, le=MOST, description="length of the schedule; default: steps")
    warmup_steps: int = Field(0, ge=0, le=MOST, description="linear warm-up")
    hold: float = Field(0.6, ge=0, le=1, description="hold-cosine: the part of the schedule at the full rate")
    min_lr: float = Field(0.0, ge=0, le=1e38, description="where cosine ends, and the floor of plateau")
    plateau_factor: float = Field(0.5, gt=0, lt=1, description="plateau: a cut multiplies the rate by this")
    plateau_patience: int = Field(30, ge=1, le=MOST, description="evaluations without improvement before a cut")
    plateau_cuts: int = Field(3, ge=0, le=MOST, description="plateau: at most so many cuts")

    beta1: float = Field(0.9, ge=0, lt=1, description="AdamW: how long the mean of gradients remembers")
    beta2: float = Field(0.999, ge=0, lt=1, description="AdamW: how long the mean of their squares remembers")
    eps: float = Field(1e-8, ge=1e-30, le=1e6, description="AdamW: keeps the division away from 0")
    weight_decay: float = Field(0.01, ge=0, le=1e6, description="AdamW: pull of the weights to 0, times the rate")
    clip_element: float = Field(0.0, ge=0, le=1e30, description="clip each gradient element to ± this; 0: off")
    clip_norm: float = Field(0.0, ge=0, le=1e30, description="scale the gradient down to this norm; 0: off")

    log_every: int = Field(
        10, ge=1, le=MOST, description="a row of metrics.csv every so many steps", json_schema_extra=OUTSIDE_HASH
    )
    eval_every: int = Field(100, ge=0, le=MOST, description="evaluate every so many steps; 0: never")
    eval_samples: int = Field(8, ge=1, le=2**24, description="samples of an evaluation during training")
    early_stop: int = Field(
        0, ge=0, le=MOST, description="stop after this many evaluations without improvement; 0: off"
    )
    checkpoint_every: int = Field(
        100, ge=1, le=MOST, description="save every so many steps", json_schema_extra=OUTSIDE_HASH
    )
    keep: int = Field(
        3, ge=1, le=MOST, description="how many checkpoints stay, besides the best", json_schema_extra=OUTSIDE_HASH
    )

    @field_validator("*", mode="before")
    @classmethod
    def _check_kind(cls, value: Any, field: ValidationInfo) -> Any:
        """A config must fit a TOML file; and what is true or false is no number."""
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, str) and not can_be_written(one):
                raise ValueError("of whole characters, and none of them NUL")
            if isinstance(one, bool) and cls.model_fields[field.field_name or ""].annotation is not bool:
                raise ValueError("a value that is not true or false")
        return value

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


def costs(model: type[TrainConfig]) -> dict[str, str]:
    """What a larger value of a key costs, as a family's config and the shared one say; keys that cost nothing are
    left out."""
    return {key: price for kind in reversed(model.__mro__) for key, price in getattr(kind, "COSTS", {}).items()}


def build(model: type[C], values: Mapping[str, Any]) -> C:
    """A checked config, or one message that names the value, the rule and the remedy."""
    for key in values:
        if key not in model.model_fields:
            raise SamebitsError(f"there is no config key {shown(key)}; {nearest(str(key), model.model_fields)}")
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise SamebitsError("; ".join(_problem(*found) for found in problems(error))) from None


def problems(error: ValidationError) -> Iterator[tuple[str, str, str]]:
    """(where, the value, the rule) of everything that does not fit a model; where it is the whole of it: no value."""
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        rule = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        if item["type"] == "too_short":
            rule = f"a list of at least {item['ctx']['min_length']}"
        elif item["type"] == "too_long":
            rule = f"a list of at most {item['ctx']['max_length']}"
        elif item["type"] == "missing":
            key, _, last = key.rpartition(".")
            rule = "a longer list" if last.isdecimal() else f"with a {last}"
        yield key, shown(item["input"]), rule


def _problem(key: str, value: str, rule: str) -> str:
    if not key:
        return rule
    flag = {"batch_size": "--batch-size", "steps": "--steps", "seed": "--seed", "keep": "--keep"}.get(key)
    remedy = f"set {flag}" if flag else f"use --set {key.split('.')[0]}=…"
    return f"{key} is {value}; it must be {rule}; {remedy}"


def override(config: C, settings: Mapping[str, Any]) -> C:
    """The config with some keys replaced, checked anew."""
    return build(type(config), {**config.model_dump(), **settings})


def parse_setting(given: str) -> tuple[str, Any]:
    """key=value as on the command line; the value is TOML, or else a plain string."""
    key, sign, value = (part.strip() for part in given.partition("="))
    if not sign or not key or "\n" in given or "\r" in given:
        raise SamebitsError(f"--set is {shown(given)}; it must be key=value on one line; for example --set lr=0.05")
    try:
        return key, _parse_toml(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value
    except SamebitsError as error:
        raise SamebitsError(f"--set is {shown(given)}: {error}; give a value that fits the key") from None


def read_toml(path: Path, inside: Path | None = None) -> dict[str, Any]:
    """A TOML file as a dict, or an error that says what is wrong with it. With `inside`, a run folder or a sweep's, it
    must be a plain file of that folder; without, the file is the user's own and may be a link or a pipe."""
    try:
        content = path.read_bytes() if inside is None else files.read(path, MOST_TOML, inside)
        return _parse_toml(content.decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SamebitsError(f"cannot read {path}: {error}; name a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise SamebitsError(f"{path} is not valid TOML: {error}; fix that line") from None
    except SamebitsError as error:
        raise SamebitsError(f"{path}: {error}; fix it") from None


def read_tables(path: Path, inside: Path | None = None) -> dict[str, dict[str, Any]]:
    """A TOML file of tables alone, as a run's config.toml is."""
    tables = read_toml(path, inside)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise SamebitsError(
                f"{path}: {shown(name)} is {shown(table)}; it must be a table; write [{name}], and the keys below it"
            )
    return tables


def _parse_toml(content: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise SamebitsError("it is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise SamebitsError(f"a value cannot be read ({error})") from None


def to_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of plain values as TOML. Keys without a value are left out: TOML has no null."""
    lines: list[str] = []
    for name, table in tables.items():
        lines.append(f"[{name}]")
        # JSON's strings, numbers, booleans and arrays are TOML's too.
        # JSON's strings may hold a delete character as it is.
        written = {key: json.dumps(value, ensure_ascii=False) for key, value in table.items() if value is not None}
        lines += [f"{key} = {value}".replace("\x7f", "\\u007f") for key, value in written.items()]
        lines.append("")
    return "\n".join(lines)


def config_hash(model: type[TrainConfig], family: str, task: str, values: Mapping[str, Any]) -> str:
    """What must be equal for a checkpoint to be continued exactly: the values as config.toml has them.

    Keys that a later version adds are not in an old run's file, so its hash stays what it was.
    """
    outside = outside_hash(model)
    kept = {key: value for key, value in values.items() if key not in outside and value is not None}
    return hashlib.sha256(json.dumps([family, task, kept], sort_keys=True).encode()).hexdigest()
