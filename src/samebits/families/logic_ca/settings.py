"""Settings as users give them: files are opened and functions called here, before a config checks what came of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from samebits.errors import SamebitsError
from samebits.families.logic_ca import pictures, rules
from samebits.families.logic_ca.config import LogicConfig


def read_settings(config: LogicConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with rule, target and start as a config keeps them: names, digits, rows of characters. Functions of
    rows and columns are called on the grid that the settings, or else the config, have."""
    found = dict(settings)
    try:
        if "rule" in found:
            found["rule"] = rules.read_rule(found["rule"])
        size = _side(found, config, "height"), _side(found, config, "width")
        if not _is_empty(found.get("target", ())):
            rows = found["target"] = pictures.read_pictures("target", found["target"], size)
            pictures.check_pictures(rows)
        rows = found.get("target", config.target)
        if rows:
            first = pictures.split(rows)[0]
            size = len(first), len(first[0])
        if "start" in found and not _is_name(found["start"]):
            found["start"] = pictures.read_pictures("start", found["start"], size)
    except (ValueError, AssertionError) as error:
        raise SamebitsError(str(error)) from None
    return found


def _side(settings: Mapping[str, Any], config: LogicConfig, key: str) -> int:
    given = settings.get(key)
    return given if isinstance(given, int) and given > 0 else int(getattr(config, key))


def _is_empty(given: Any) -> bool:
    return isinstance(given, list | tuple) and len(given) == 0


def _is_name(given: Any) -> bool:
    return isinstance(given, str | os.PathLike) and str(given) in ("", *pictures.STARTS)
