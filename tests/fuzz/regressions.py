"""Inputs that once found something, as (kind, seed). A generator that changes makes others of them: then find anew."""

from __future__ import annotations

REGRESSIONS: list[tuple[str, int]] = []
