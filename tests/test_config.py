import pytest
from pydantic import Field

from samebits.config import (
    OUTSIDE_HASH,
    TrainConfig,
    build,
    config_hash,
    outside_hash,
    override,
    parse_setting,
    read_toml,
    to_toml,
)
from samebits.errors import SamebitsError


def test_an_unknown_key_names_the_near_ones():
    with pytest.raises(SamebitsError, match="no config key 'batchsize'; did you mean batch_size"):
        build(TrainConfig, {"batchsize": 3})


@pytest.mark.parametrize(
    ("key", "value"),
    [("steps", 0), ("batch_size", -1), ("lr", 0), ("beta1", 1.0), ("schedule", "linear"), ("lr", "abc")],
)
def test_a_bad_value_names_value_rule_and_remedy(key, value):
    with pytest.raises(SamebitsError, match=rf"{key} is {value!r}; it must be .*; (set|use) --"):
        build(TrainConfig, {key: value})


def test_rules_between_keys():
    with pytest.raises(SamebitsError, match=r"min_lr is 1.0; it must not be above lr"):
        build(TrainConfig, {"lr": 0.1, "min_lr": 1.0})
    with pytest.raises(SamebitsError, match="plateau"):
        build(TrainConfig, {"schedule": "plateau", "eval_every": 0})


def test_override_checks_again():
    with pytest.raises(SamebitsError, match="steps"):
        override(TrainConfig(), {"steps": 0})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lr=0.5", ("lr", 0.5)),
        ("update=[8, 4]", ("update", [8, 4])),
        ("schedule=cosine", ("schedule", "cosine")),
        ("a=true", ("a", True)),
    ],
)
def test_settings_are_toml_or_plain_words(text, expected):
    assert parse_setting(text) == expected


def test_toml_there_and_back(tmp_path):
    tables = {"run": {"task": "life – é 🦎"}, "config": TrainConfig().model_dump(mode="json") | {"update": [1, 2]}}
    path = tmp_path / "config.toml"
    path.write_text(to_toml(tables), encoding="utf-8")
    expected = {name: {k: v for k, v in table.items() if v is not None} for name, table in tables.items()}
    assert read_toml(path) == expected


def test_the_hash_leaves_out_what_cannot_change_a_bit():
    def hashed(**changes):
        return config_hash(TrainConfig, "f", "t", override(TrainConfig(), changes).model_dump(mode="json"))

    outside = {"steps": 7, "log_every": 3, "checkpoint_every": 9, "keep": 1, "micro_batches": 2, "slot_memory": 9}
    assert hashed() == hashed(**outside)
    for key, value in (("seed", 1), ("eval_every", 7), ("schedule_steps", 5), ("lr", 0.2)):
        assert hashed() != hashed(**{key: value})


def test_a_key_that_a_later_version_adds_does_not_change_an_old_runs_hash():
    def hashed(**more):
        return config_hash(TrainConfig, "f", "t", {"lr": 0.5, "seed": 1, **more})

    assert hashed() == hashed(schedule_steps=None)
    assert hashed() != hashed(weight_decay=0.0)


def test_a_familys_own_keys_may_be_outside_too():
    class Own(TrainConfig):
        place: str = Field("", json_schema_extra=OUTSIDE_HASH)
        width: int = Field(3, json_schema_extra={"other": True})

    assert outside_hash(Own) == {*outside_hash(TrainConfig), "place"}
    first, moved, wider = ({"place": place, "width": width} for place, width in (("a", 3), ("b", 3), ("a", 4)))
    assert config_hash(Own, "f", "t", first) == config_hash(Own, "f", "t", moved)
    assert config_hash(Own, "f", "t", first) != config_hash(Own, "f", "t", wider)
    assert config_hash(TrainConfig, "f", "t", first) != config_hash(TrainConfig, "f", "t", moved)
