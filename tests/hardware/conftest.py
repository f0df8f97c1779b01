"""A second of searching for fewer gates is enough here; test_minimise.py and what is marked hardware have it all."""

from __future__ import annotations

import pytest

from samebits.families.logic_ca.circuits import minimise


@pytest.fixture(autouse=True)
def short_search(request, monkeypatch):
    if request.node.get_closest_marker("hardware") is None and "test_minimise" not in request.node.nodeid:
        monkeypatch.setattr(minimise, "USUAL_TURNS", 2)
        monkeypatch.setattr(minimise, "USUAL_SEEDS", 1)
