"""Which bits this version computes: a number that changes when any hash does, and the hashes to compare with.

The canaries are hashes of tiny trainings and of single kernels on fixed inputs (verify/canary.py). They travel with the
package: whoever computes them anywhere must get these.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

BITS = 2  # raised by whatever changes a hash; docs/bits.md says what that means for a run
FILE = Path(__file__).parent / "canaries.json"


@cache
def published() -> dict[str, str]:
    """Canaries by name, as published with this version."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return dict(found["canaries"]) if found["bits"] == BITS else {}
