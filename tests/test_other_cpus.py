"""A child that computes as another CPU would must not use what that CPU has not: neither compiled, nor in NumPy."""

import subprocess
import sys

import numpy as np
import pytest

from samebits.verify import cpus

HOST = {*np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])}
WIDE = {name for name in HOST if name.startswith("AVX512") or name == "X86_V4"}
FEATURES = """
import numpy._core._multiarray_umath as numpy
print(*(name for name in numpy.__cpu_dispatch__ if numpy.__cpu_features__.get(name)))
"""


@pytest.mark.skipif(not WIDE, reason="this CPU has no AVX-512")
@pytest.mark.parametrize(("cpu", "wide"), [("haswell", False), ("skylake-avx512", True)])
def test_numpy_has_the_vectors_of_the_type(monkeypatch, cpu, wide):
    def start(command, env, **more):
        return Popen([sys.executable, "-W", "error", "-c", FEATURES], env=env, **more)

    Popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    out, err = cpus.start(cpu, []).communicate()
    assert err == ""
    assert set(out.split()) == (HOST if wide else HOST - WIDE)
