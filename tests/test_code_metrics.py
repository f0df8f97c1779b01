"""What tools/code_metrics.py counts."""

import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools/code_metrics.py"))
MANY = ", ".join(f"x{i}: Any" for i in range(9))
KERNELS = f"""
KERNEL ALIKE(32, 1) void OF_TILE(wide)({", ".join(["GLOBAL float* x"] * 9)}) {{ }}
KERNEL void narrow({", ".join(["int x"] * 8)}) {{ }}
DEVICE float helper({", ".join(["int x"] * 10)}) {{ }}
"""


def test_what_is_counted(tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "a.py").write_text("def long():\n" + "    pass\n" * 80 + f"def many({MANY}): ...\n")
    (tmp_path / "b.py").write_text(f"class A:\n    def few(self, {MANY[:-9]}, *, more: Any) -> list[Any]: ...\n")
    (tmp_path / "cli" / "c.py").write_text(f"def command({MANY}): ...\n")
    (tmp_path / "d.cl").write_text(KERNELS)
    found = TOOL["measure"]([tmp_path])
    assert (found.files, found.lines, found.any_annotations) == (4, 89, 28)
    assert [(place.number, place.name) for place in found.wide_functions] == [(9, "many")]
    assert [(place.number, place.name) for place in found.long_functions] == [(81, "long")]
    assert [(place.number, place.name) for place in found.wide_kernels] == [(9, "OF_TILE(wide)")]
    assert [(place.number, place.name) for place in found.wide_device_functions] == [(10, "helper")]
