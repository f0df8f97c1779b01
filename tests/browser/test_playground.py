"""The exported page in a browser: the cells of our own rollout, bit for bit, and controls that do what they say."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from samebits.arithmetic.rng import Purpose
from samebits.config import override
from samebits.devices.cpu.workers import workers_for
from samebits.families.logic_ca import data
from samebits.families.logic_ca.circuits import export
from samebits.families.logic_ca.circuits.circuit import evaluate, kept_channels
from samebits.families.logic_ca.simulation.experiments import fire_grid
from samebits.families.logic_ca.simulation.packed import simulate
from samebits.hardware.writers import html
from tests.hardware.models import LEARNED, learned, smaller

pytestmark = pytest.mark.browser
ENGINES = ("wasm", "js")
SIZES = [(3, 3), (5, 70), (9, 128), (33, 129), (40, 31), (20, 192), (64, 64), (5, 1024), (1024, 7)]


@cache
def written(task):
    return html.write(export.cell_of(learned(task), smaller(task), task, ""))


@pytest.fixture
def play(visit, tmp_path):
    """play(task, engine) opens the exported page."""

    def opened(task, engine="wasm", **options):
        path = tmp_path / f"{task}.html"
        path.write_bytes(written(task))
        return visit(f"{path.as_uri()}?engine={engine}", **options)

    return opened


def cells(page, task):
    """(H, W, kept channels), as the page has them."""
    height, width, text = page.evaluate(
        "[playground.world.height, playground.world.width, playground.cells().join('')]"
    )
    return np.frombuffer(text.encode(), np.uint8).reshape(height, width, -1) - ord("0")


def kept(task):
    return list(kept_channels(smaller(task)))


def rolled_out(task, start, steps, periodic=None, rate=1.0, seed=0):
    """What the packed simulator makes of the start (H, W, C), the circuit not yet minimised."""
    config = override(learned(task).config, {"seed": seed})
    fire = fire_grid(config, rate, steps, start.shape[:2], Purpose.RENDER)
    wraps = config.boundary == "periodic" if periodic is None else periodic
    with workers_for(1) as team:
        return simulate(learned(task).pruned, start[None], steps, wraps, team, fire=fire)[0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("task", LEARNED)
def test_a_thousand_steps_are_our_rollout(play, task, engine):
    """From the start it was trained from, at its size, with its masks: LogicModel.rollout, every gate of it."""
    model = learned(task)
    size = (16, 16) if task == "life" else (model.config.height, model.config.width)
    page = play(task, engine)
    assert page.evaluate("playground.world.engine.name") == engine
    page.evaluate("([height, width]) => playground.resize(height, width)", list(size))
    grids = data.start_grids(model.config, 1, Purpose.RENDER, 0, size)
    fire = fire_grid(model.config, model.config.fire_rate, 1000, size, Purpose.RENDER)
    for begin, end in ((0, 1), (1, 8), (8, 1000)):  # a board that has settled no longer tells one mask from another
        page.evaluate(f"playground.step({end - begin})")
        grids = model.rollout(grids, end - begin, fire=None if fire is None else fire[begin:end])
        np.testing.assert_array_equal(cells(page, task), grids[0][..., kept(task)])
    assert page.locator("[data-part=time]").inner_text() == "1,000"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("task", ["life", "checkerboard", "checkerboard-async"])
def test_odd_sizes_both_boundaries_and_masks(play, task, engine):
    page, model = play(task, engine), learned(task)
    for seed, (height, width) in enumerate(SIZES):
        for boundary in ("periodic", "zeros"):
            for rate in (1.0, 0.6):
                page.evaluate(
                    """([height, width, boundary, rate, seed]) => {
                        playground.world.wrap(boundary === "periodic");
                        playground.world.rate = rate;
                        playground.resize(height, width);
                        playground.reset("random", seed);
                        playground.step(40);
                    }""",
                    [height, width, boundary, rate, seed],
                )
                config = override(model.config, {"seed": seed})
                start = data.random_grids(config, 1, Purpose.RENDER, 0, (height, width))[0]
                wanted = rolled_out(task, start, 40, boundary == "periodic", rate, seed)[..., kept(task)]
                np.testing.assert_array_equal(cells(page, task), wanted, f"{height}×{width} {boundary} {rate}")


def test_engines_change_hands_in_the_middle(play):
    page = play("checkerboard-async")
    page.evaluate(
        "playground.step(7); playground.use('js'); playground.step(5); playground.use('wasm'); playground.step(3)"
    )
    start = data.start_grids(learned("checkerboard-async").config, 1, Purpose.RENDER, 0, (64, 64))[0]
    wanted = rolled_out("checkerboard-async", start, 15, rate=0.6)
    np.testing.assert_array_equal(cells(page, "checkerboard-async"), wanted[..., kept("checkerboard-async")])


def test_without_simd_it_is_javascript(browser, tmp_path):
    path = tmp_path / "life.html"
    path.write_bytes(written("life"))
    page = browser.new_page()
    page.add_init_script(
        "WebAssembly.Module = class { constructor() { throw new WebAssembly.CompileError('no SIMD'); } }"
    )
    page.goto(path.as_uri())
    assert page.locator("[data-part=engine]").inner_text() == "JavaScript"
    page.evaluate("playground.step(10)")
    start = data.start_grids(learned("life").config, 1, Purpose.RENDER, 0, (128, 128))[0]
    np.testing.assert_array_equal(cells(page, "life"), rolled_out("life", start, 10))
    page.close()


def spot(page, y, x):
    """Where the middle of a cell is on the screen."""
    box = page.locator(".marks").bounding_box()
    height, width = page.evaluate("[playground.world.height, playground.world.width]")
    return box["x"] + (x + 0.5) * box["width"] / width, box["y"] + (y + 0.5) * box["height"] / height


def choose(page, tool, size):
    page.locator(f".tools label:has([value={tool}])").click()
    page.locator("[data-part=size]").fill(str(size))


def test_it_is_hurt_and_heals(play):
    """The checkerboard settles, a block of it is cleared with the mouse, and it settles again: as our rollout would."""
    page, config = play("checkerboard"), learned("checkerboard").config
    wanted = data.checkerboard(64, 64, config.square)[..., 0]
    page.evaluate("playground.step(100)")
    before = cells(page, "checkerboard")
    np.testing.assert_array_equal(before[..., 0], wanted)
    choose(page, "damage", 20)
    page.mouse.click(*spot(page, 30, 34))
    hurt = before.copy()
    hurt[20:40, 24:44] = 0
    np.testing.assert_array_equal(cells(page, "checkerboard"), hurt)
    page.evaluate("playground.step(100)")
    after = cells(page, "checkerboard")
    whole = np.zeros((64, 64, config.channels), np.float32)
    whole[..., kept("checkerboard")] = hurt
    np.testing.assert_array_equal(after, rolled_out("checkerboard", whole, 100)[..., kept("checkerboard")])
    np.testing.assert_array_equal(after[..., 0], wanted)


def test_brushes_paint_and_erase_without_gaps(play):
    page = play("life")
    page.evaluate("playground.resize(48, 60); playground.reset('zeros')")
    wanted = np.zeros((48, 60), np.uint8)
    choose(page, "paint", 3)
    page.mouse.move(*spot(page, 10, 5))
    page.mouse.down()
    page.mouse.move(*spot(page, 10, 50), steps=2)
    page.mouse.up()
    wanted[9:12, 4:52] = 1
    np.testing.assert_array_equal(cells(page, "life")[..., 0], wanted)
    choose(page, "erase", 2)
    page.mouse.click(*spot(page, 10, 20))
    wanted[9:11, 19:21] = 0
    choose(page, "paint", 1)
    page.mouse.click(*spot(page, 11, 40), button="right")
    wanted[11, 40] = 0
    np.testing.assert_array_equal(cells(page, "life")[..., 0], wanted)
    page.evaluate("playground.step(9)")
    end = rolled_out("life", wanted[..., None].astype(np.float32), 9)
    np.testing.assert_array_equal(cells(page, "life"), end)


def test_a_finger_plants_a_seed_that_grows(play):
    page, config = play("grow", has_touch=True, viewport={"width": 390, "height": 800}), learned("grow").config
    page.evaluate("playground.reset('zeros')")
    page.locator(".tools label:has([value=seed])").tap()
    page.touchscreen.tap(*spot(page, 10, 10))
    page.evaluate(f"playground.step({config.ca_steps})")
    start = data.start_grids(config, 1, Purpose.RENDER, 0)[0]
    wanted = rolled_out("grow", start, config.ca_steps)[..., kept("grow")]
    np.testing.assert_array_equal(cells(page, "grow"), wanted)


def test_the_circuit_lights_up_for_the_cell_under_the_pointer(play):
    page, circuit = play("life"), smaller("life")
    page.evaluate("playground.step(3)")
    now = cells(page, "life")[..., 0]
    texts = []
    for y, x in ((0, 0), (5, 17), (60, 127), (64, 64), (127, 3)):
        page.mouse.move(*spot(page, y, x))
        inputs = [int(now[(y + p // 3 - 1) % 128, (x + p % 3 - 1) % 128]) for p, _ in circuit.inputs.tolist()]
        assert page.locator(".input.on").count() == sum(inputs)
        assert page.locator(".gate.on").count() == lit(circuit, inputs)
        texts.append(page.locator("[data-part=inspected]").inner_text())
        after = int(evaluate_one(circuit, inputs)[0])
        assert texts[-1] == f"row {y}, column {x}: {now[y, x]} → {after}"
        assert page.locator(".output.on").count() == after
    page.evaluate("playground.step()")
    assert [int(text[-1]) for text in texts] == [
        cells(page, "life")[y, x, 0] for y, x in ((0, 0), (5, 17), (60, 127), (64, 64), (127, 3))
    ]


def test_the_drawing_is_of_the_channel_chosen(play):
    page = play("grow")  # whose visible channel is a copy of a hidden one
    assert page.locator(".gate").count() > 0
    page.locator("[data-part=output]").select_option("0")
    assert page.locator(".gate").count() == 0
    assert page.locator("[data-part=gates]").inner_text() == "a wire, no gate"
    shown = kept("grow")[5]
    page.locator("[data-part=channel]").select_option(str(shown))
    assert page.locator("[data-part=output]").input_value() == str(shown)


def evaluate_one(circuit, inputs):
    words = np.array(inputs, np.uint64)[:, None]
    return evaluate(circuit, words, np.ones(len(inputs) + len(circuit.ops), bool))[:, 0] & np.uint64(1)


def lit(circuit, inputs):
    """How many gates are 1, by their truth tables."""
    values = list(inputs)
    for op, a, b in zip(circuit.ops.tolist(), circuit.a.tolist(), circuit.b.tolist(), strict=True):
        values.append(op >> (3 - 2 * values[a] - values[b]) & 1)
    return sum(values[len(inputs) :])


def test_keys(play):
    page = play("life")
    time = lambda: page.evaluate("playground.world.time")  # noqa: E731
    page.keyboard.press(".")
    assert time() == 1
    page.keyboard.press("Space")
    page.wait_for_function("playground.world.time > 3")
    page.keyboard.press("Space")
    stopped = time()
    page.wait_for_timeout(150)
    assert time() == stopped
    assert not page.evaluate("playground.playing")
    page.keyboard.press("n")
    assert [time(), page.evaluate("playground.world.seed")] == [0, 1]
    page.keyboard.press("r")
    page.evaluate("playground.resize(20, 30); playground.reset('zeros')")
    page.locator(".marks").focus()
    for key in ("p", *"[" * 8, "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    wanted = np.zeros((20, 30), np.uint8)
    wanted[11, 17] = 1
    np.testing.assert_array_equal(cells(page, "life")[..., 0], wanted)
    for key in ("d", "]", "Enter"):  # a block, large enough from the start
        page.keyboard.press(key)
    assert not cells(page, "life").any()
    assert page.evaluate("[playground.tool, playground.sizes.damage, playground.sizes.paint]") == ["damage", 33, 1]


def test_settings(play):
    page = play("checkerboard")

    def part(name):
        return page.locator(f"[data-part={name}]")

    part("grid").select_option("512x512")
    assert cells(page, "checkerboard").shape[:2] == (512, 512)
    part("height").fill("99999")
    part("height").press("Enter")
    assert page.evaluate("[playground.world.height, playground.world.width]") == [1024, 512]
    part("width").fill("1")
    part("width").press("Enter")
    assert part("width").input_value() == "3"
    part("grid").select_option("64x64")
    part("boundary").select_option("periodic")
    part("update").select_option("asynchronous")
    part("seed").fill("12")
    part("seed").press("Enter")
    page.get_by_role("button", name="Step").click()
    config = override(learned("checkerboard").config, {"seed": 12})
    start = data.random_grids(config, 1, Purpose.RENDER, 0, (64, 64))[0]
    wanted = rolled_out("checkerboard", start, 1, True, 0.6, 12)
    np.testing.assert_array_equal(cells(page, "checkerboard"), wanted[..., kept("checkerboard")])
    shown = kept("checkerboard")[1]
    part("channel").select_option(str(shown))
    pixels = page.evaluate("Array.from(playground.board.pixels)")
    seen = np.array(pixels).reshape(64, 64)
    np.testing.assert_array_equal(seen == page.evaluate("playground.board.plain[1]"), wanted[..., shown] == 1)
    page.get_by_role("button", name="Reset").click()
    assert page.locator("[data-part=time]").inner_text() == "0"


def test_a_picture_pauses_when_it_is_done(play):
    page = play("letter")
    page.locator("[data-part=speed]").fill("8")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("!playground.playing")
    assert page.evaluate("playground.world.time") == learned("letter").config.ca_steps


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "width"), [("phone", 360), ("tablet", 800), ("wide", 1500)])
@pytest.mark.parametrize("task", ["life", "letter"])
def test_it_fits_and_everything_has_a_name(play, picture, task, device, width, scheme):
    page = play(task, viewport={"width": width, "height": 800}, color_scheme=scheme, has_touch=device == "phone")
    page.evaluate("playground.step(15)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, select, input, canvas[tabindex]")].filter((one) =>
            one.checkVisibility() && !(one.labels?.[0] ?? one).textContent.trim() && !one.ariaLabel).length"""
    )
    assert nameless == 0
    paper = page.evaluate("getComputedStyle(document.querySelector('.playground')).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 200) == (scheme == "dark")
    picture(page, f"{task}-{device}-{scheme}")


def test_in_a_notebook_it_plays_in_a_frame(visit, tmp_path):
    shown = learned("checkerboard").animate(grid=(20, 30), height=640)._repr_html_()
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><link rel=icon href=data:,><p>before</p>{shown}", encoding="utf-8"
    )
    page = visit(path.as_uri())
    frame = page.frames[1]
    frame.get_by_role("button", name="Step").click()
    assert frame.evaluate("[playground.world.height, playground.world.width, playground.world.time]") == [20, 30, 1]


def test_speed(play):
    """No clock is asserted: what 512×512 cells of Life do here is printed, for README.md and docs/LOG.md."""
    page = play("life")
    page.evaluate("playground.resize(512, 512); playground.step(500)")
    frame = page.evaluate(
        """() => { const began = performance.now();
            for (let i = 0; i < 300; i++) { playground.world.step(1); playground.refresh(); }
            return (performance.now() - began) / 300; }"""
    )
    page.locator("[data-part=speed]").fill("6")
    page.get_by_role("button", name="Play").click()
    rate = page.evaluate(
        """() => new Promise((done) => {
            let first = null, count = 0;
            const tick = (time) => {
                first ??= time;
                if (time - first > 2000) return done(count / (time - first) * 1000);
                count++;
                requestAnimationFrame(tick);
            };
            requestAnimationFrame(tick);
        })"""
    )
    page.evaluate("playground.play(false)")
    print(f"512×512 Life: a step and its picture take {frame:.2f} ms; {rate:.0f} frames a second at one step a frame")
    for engine, steps in (("wasm", 1000), ("js", 100)):  # short: others may want the processor, too
        page.evaluate(f"playground.use('{engine}'); playground.world.step(2000)")
        found = [page.evaluate(f"playground.world.benchmark({steps})") / 1e9 for _ in range(60)]
        print(
            f"{engine}: {max(found):.1f} billion cell updates a second, the best of {len(found)}, "
            f"{np.median(found):.1f} the median"
        )
