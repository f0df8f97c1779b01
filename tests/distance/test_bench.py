"""The comparison with networkx: values first, then a record."""

import json

import pytest

from weft.bench import distances
from weft.errors import WeftError


def test_the_record_has_a_row_a_size():
    record = distances.graph_distances(sizes=(3, 4), pairs=3, alone=(5,))
    assert [row["nodes"] for row in record["rows"]] == [3, 4, 5]
    for row in record["rows"][:2]:
        assert row["ratio"] == row["networkx_ms"] / row["weft_ms"] > 0
    assert "ratio" not in record["rows"][2]
    assert json.loads(json.dumps(record)) == record


def test_no_time_is_recorded_for_wrong_values(monkeypatch):
    class Wrong:
        distance = -1.0

    monkeypatch.setattr(distances, "graph_edit_distance", lambda a, b: Wrong)
    with pytest.raises(WeftError, match=r"at 3 nodes our distances .* are not networkx's"):
        distances.graph_distances(sizes=(3,), pairs=2, alone=())
