"""Plots leave nobody out, however many there are."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from samebits.report import benchmarks, pictures, plots

MANY = 20  # more than there are colours, and than colours and lines


@pytest.fixture
def drawn(monkeypatch):
    """Every figure that is saved, still open to look at."""
    found = []
    for module in (benchmarks, plots):
        monkeypatch.setattr(module, "save", lambda figure, path, inside=None: found.append(figure))
    return found


def looks(artists):
    return [(artist.get_color(), artist.get_linestyle()) for artist in artists]


def test_every_curve_is_drawn(drawn, tmp_path):
    plots.plot_curves(tmp_path / "x.png", {f"curve {i}": np.ones(3) for i in range(MANY)}, "", "", "")
    curves = drawn[0].axes[0].lines
    assert len(curves) == MANY
    assert len(set(looks(curves[:12]))) == 12


def test_every_loss_is_drawn(drawn, tmp_path):
    names = [f"loss_{i}" for i in range(MANY)]
    rows = [",".join(["step", *names]), *(",".join([str(i), *["1.5"] * MANY]) for i in range(3))]
    (tmp_path / "metrics.csv").write_text("\n".join(rows) + "\n")
    plots.plot_losses(tmp_path, "title")
    curves = drawn[0].axes[0].lines
    assert len(curves) == MANY
    assert len(set(looks(curves[:8]))) == 8


def test_every_task_has_a_line_of_scaling(drawn, tmp_path):
    benchmarks.plot_scaling(tmp_path / "x.png", {f"task {i}": [(1, 1.0), (2, 1.5)] for i in range(MANY)}, "a machine")
    _ideal, *curves = drawn[0].axes[0].lines
    assert len(curves) == MANY
    assert len(set(looks(curves))) == MANY


def test_everything_measured_has_a_bar_beside_its_fastest_peer(drawn, tmp_path):
    groups = [(f"step {i}", {"slow": 300.0, f"peer {i}": 2.0 + i}) for i in range(MANY)]
    benchmarks.plot_peers(tmp_path / "x.png", groups)
    (axes,) = drawn[0].axes
    assert [text.get_text() for text in axes.texts] == [f"{2 + i}× peer {i}" for i in range(MANY)]
    assert [bar.get_width() for bar in axes.patches] == [1.0 + i for i in range(MANY)]
    assert drawn[0].get_figheight() < 0.3 * MANY + 1.5


def test_a_crowded_curve_is_its_means_and_a_band(drawn, tmp_path):
    noisy = np.random.default_rng(0).normal(900, 200, 4000)
    plots.plot_curves(tmp_path / "x.png", {"noisy": noisy}, "", "", "")
    (line,), (band,) = drawn[0].axes[0].lines, drawn[0].axes[0].collections
    assert line.get_ydata().std() < 40
    low, high = band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max()
    assert low < 900 - 200 < 900 + 200 < high


@pytest.mark.parametrize(
    ("losses", "scale"), [((4.6, 1.3), "linear"), ((300.0, 0.01), "log"), ((300.0, 0.0), "symlog")]
)
def test_the_scale_is_the_one_that_the_losses_ask_for(drawn, tmp_path, losses, scale):
    (tmp_path / "metrics.csv").write_text("step,loss\n" + "".join(f"{i},{x}\n" for i, x in enumerate(losses, 1)))
    plots.plot_losses(tmp_path, "title")
    assert drawn[0].axes[0].get_yscale() == scale


def test_a_crowd_of_points_gets_its_running_mean(drawn, tmp_path):
    rows = "".join(f"{i},{1 + i % 2}\n" for i in range(1, 1001))
    (tmp_path / "metrics.csv").write_text("step,loss\n" + rows)
    plots.plot_losses(tmp_path, "title")
    points, mean = drawn[0].axes[0].lines
    assert len(points.get_ydata()) == 1000
    np.testing.assert_allclose(mean.get_ydata(), 1.5)


def test_captions_are_never_cut():
    """Grids three cells wide, and what is written below them."""
    sheet = np.asarray(pictures.captioned(Image.new("RGB", (3, 50)), "step 100, a caption"))
    assert (sheet[:, -pictures.MARGIN :] == pictures.PAPER).all()
    assert (sheet[55:] != pictures.PAPER).any()
