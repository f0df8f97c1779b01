"""Targets: built in, drawn as text, read from images; and every way they can be wrong."""

import numpy as np
import pytest
from PIL import Image

import samebits
from samebits.config import override
from samebits.errors import SamebitsError
from samebits.families import find_preset
from samebits.families.logic_ca import data
from samebits.families.logic_ca.pictures import (
    BUILT_IN,
    COLOURS,
    check_rows,
    read_target,
    split,
    target_channels,
    to_bits,
)
from samebits.families.logic_ca.reach import check_reach
from tests.families.logic_ca.configured import configured


def grow(target):
    return configured(find_preset("grow", "small"), {"target": target})


@pytest.mark.parametrize(("name", "shape"), [("lizard", (20, 20, 1)), ("letter", (16, 16, 3))])
def test_built_in_pictures(name, shape):
    check_rows(BUILT_IN[name])
    bits = to_bits(BUILT_IN[name])
    assert bits.shape == shape
    assert set(np.unique(bits)) == {0.0, 1.0}


def test_the_letter_uses_every_colour():
    assert set("".join(BUILT_IN["letter"])) == set(COLOURS)


def test_a_text_drawing(tmp_path):
    path = tmp_path / "drawing.txt"
    path.write_text(".#.\n###\n.#.\n.#.\n")
    config = grow(str(path))
    assert (config.height, config.width, config.target_channels) == (4, 3, 1)
    assert to_bits(config.target)[..., 0].sum() == 6


def test_a_one_bit_image_has_its_background_in_the_corner(tmp_path):
    path = tmp_path / "ink.png"
    pixels = np.full((5, 6, 3), 255, np.uint8)
    pixels[2, 1:4] = (10, 20, 30)
    Image.fromarray(pixels).save(path)
    assert read_target(str(path)) == ("......", "......", ".###..", "......", "......")


def test_transparent_is_empty(tmp_path):
    path = tmp_path / "clear.png"
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[..., :3] = 200
    pixels[1:3, 1:3] = (250, 0, 0, 255)
    Image.fromarray(pixels, "RGBA").save(path)
    assert read_target(str(path)) == ("....", ".##.", ".##.", "....")


def test_eight_colours_become_bits_of_red_green_and_blue(tmp_path):
    path = tmp_path / "colours.png"
    corners = np.array(list(COLOURS.values()), np.uint8) * 255
    Image.fromarray(corners.reshape(2, 4, 3).repeat(2, axis=0)).save(path)
    rows = read_target(str(path))
    assert target_channels(rows) == 3
    np.testing.assert_array_equal(to_bits(rows), corners.reshape(2, 4, 3).repeat(2, axis=0) / 255)


def save_colours(path, count):
    levels = np.linspace(0, 255, count).astype(np.uint8)
    Image.fromarray(np.stack([levels] * 3, axis=-1)[None].repeat(3, axis=0)).save(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "it must be an image or text file of at most 64 MB, or lizard or letter"),
        (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\nbroken"), "is not a readable image"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00\x01"), "is not a readable image"),
        (lambda path: Image.new("RGB", (300, 200)).save(path, "PNG"), "is 200×300 cells; each side must be 3 to 64"),
        (lambda path: Image.new("RGB", (2, 8)).save(path, "PNG"), "is 8×2 cells"),
        (lambda path: save_colours(path.with_suffix(".png"), 9), "has 9 colours; a picture may have at most 8"),
        (lambda path: path.write_text(""), "picture is 0×0 cells"),
        (lambda path: path.write_text("...\n....\n...\n"), "row 2 has 4 cells, row 1 has 3"),
        (lambda path: path.write_text("..x\n...\n...\n"), "row 1 holds 'x'"),
        (lambda path: path.write_text("...\n...\n...\n"), "target is empty"),
        (lambda path: path.write_text("R..\n.#.\n...\n"), "mixes # with colours"),
    ],
)
def test_pictures_that_cannot_be_grown(tmp_path, make, message):
    path = tmp_path / "target"
    make(path)
    found = path if path.exists() else path.with_suffix(".png")
    with pytest.raises(SamebitsError, match=message):
        grow(str(found))


def test_the_grid_takes_the_size_of_the_picture_and_the_run_keeps_it(tmp_path):
    config = grow("letter")
    assert (config.height, config.width, config.target_channels) == (16, 16, 3)
    assert config.target == BUILT_IN["letter"]
    assert configured(config, {"lr": 0.1}).target == BUILT_IN["letter"]


@pytest.mark.parametrize("target", [5, True, {"a": 1}, [1, 2, 3], ["#..", 2, "..."]])
def test_a_target_that_is_no_picture_is_refused(target):
    with pytest.raises(SamebitsError, match=r"target is .*; it must be .* a list of rows .*; name one"):
        grow(target)


@pytest.mark.parametrize("task", ["life", "checkerboard"])
def test_only_grow_takes_a_target(task):
    with pytest.raises(SamebitsError, match=f"rule is {task}; only grow takes a picture; leave --target out"):
        configured(find_preset(task, "small"), {"target": "lizard"})


def test_grow_needs_a_target():
    with pytest.raises(SamebitsError, match="target is empty; rule grow needs a picture; set --target"):
        grow(())


def test_a_decoder_that_speaks_of_cells_is_still_an_unreadable_image(tmp_path, monkeypatch):
    path = tmp_path / "target.png"
    Image.new("RGB", (8, 8)).save(path)

    def broken(self, mode):
        raise ValueError("not enough cells in the strip")

    monkeypatch.setattr(Image.Image, "convert", broken)
    with pytest.raises(SamebitsError, match="is not a readable image"):
        grow(str(path))


def test_colours_need_channels():
    with pytest.raises(SamebitsError, match="channels is 2; the target has 3 colour channels"):
        configured(find_preset("letter", "small"), {"channels": 2, "kernels": 4, "update": (18, 9, 5, 3, 2)})


def test_a_target_may_be_an_array_or_a_function():
    ring = np.zeros((6, 7), bool)
    ring[1:5, 1:6], ring[2:4, 2:5] = True, False
    rows = (".......", ".#####.", ".#...#.", ".#...#.", ".#####.", ".......")
    assert grow(ring).target == rows
    assert (grow(ring).height, grow(ring).width) == (6, 7)
    colours = np.zeros((4, 4, 3), int)
    colours[1, 1:3] = (1, 0, 0), (0, 1, 1)
    assert grow(colours).target == ("....", ".RC.", "....", "....")
    disc = grow(lambda y, x: (y - 10) ** 2 + (x - 10) ** 2 < 30)  # on the grid of the preset
    assert (disc.height, disc.width) == (20, 20)
    assert disc.target[10][5:16] == "###########"
    with pytest.raises(SamebitsError, match="an array"):
        grow(np.full((4, 4), 0.5))


def two_pictures(**more):
    first, second = np.eye(6, dtype=bool), np.fliplr(np.eye(6, dtype=bool))
    left, right = np.zeros((2, 6, 6), bool)
    left[3, 2], right[3, 3:5] = True, True
    return configured(find_preset("grow", "small"), {"target": [first, second], "start": [left, right], **more})


def test_several_pictures_grow_each_from_its_start(tmp_path):
    config = two_pictures()
    assert (config.height, config.width, config.pictures) == (6, 6, 2)
    loaded = data.load(config)
    for step in range(3):
        boards = data.batch(config, loaded, step).arrays
        assert boards.grids[0, ..., 5].sum() == 1 + step % 2
        assert boards.targets[0, 0, 0, 0] == 1 - step % 2
    both = data.evaluation(config, loaded, True).arrays
    assert len(both.grids) == 2
    np.testing.assert_array_equal(both.targets[0, ..., 0], np.eye(6))
    assert data.start_grids(config, 1, 2, 0, (12, 12))[0, 6, 5].all()  # in the middle of a larger grid
    path = tmp_path / "two.txt"
    path.write_text("\n".join(config.target))
    assert split(read_target(str(path))) == split(config.target)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"start": "centre"}, "target has 2 pictures and start is centre; each needs a start of its own"),
        ({"start": ("######",) * 6}, "start has 1 pictures, target 2"),
        ({"target": [np.eye(5, dtype=bool)] * 2}, "start is 6×6 cells; the target has 5×5"),
        ({"target": [np.eye(5, dtype=bool), np.eye(6, dtype=bool)]}, "one picture is 6×6 cells, the first 5×5"),
    ],
)
def test_pictures_and_starts_must_fit(more, message):
    with pytest.raises(SamebitsError, match=message):
        two_pictures(**more)


def from_anything(**more):
    settings = {"target": "heart", "start": "any", "boundary": "zeros", "batch_size": 3, **more}
    return configured(find_preset("grow", "small"), settings)


def test_with_any_the_first_sample_is_one_cell_and_the_others_are_random():
    config, loaded = from_anything(), data.load(from_anything())
    steps = [data.batch(config, loaded, step).arrays for step in range(2)]
    for boards in steps:
        assert boards.grids.shape == (3, 13, 13, 16)
        assert boards.grids[0].sum() == boards.grids[0, 6, 6].sum() == 16
        np.testing.assert_array_equal(boards.targets[2], to_bits(config.target))
    random = data.random_grids(config, 3, data.Purpose.BATCH, 1)
    np.testing.assert_array_equal(steps[1].grids[1:], random[1:])
    assert (steps[0].grids[1:] != steps[1].grids[1:]).any(axis=(1, 2, 3)).all()
    looked = data.evaluation(config, loaded, False).arrays
    assert len(looked.grids) == config.eval_samples
    assert [bool(grid.sum() == 16) for grid in looked.grids] == [True] + [False] * 7
    assert data.start_grids(config, 1, data.Purpose.RENDER, 0, (20, 20))[0, 10, 10].all()
    assert len(data.repair_boards(config, loaded, 40)[0]) == 40


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"boundary": "periodic"}, "start is any; out of random bits on a torus .* use --set boundary=zeros"),
        ({"batch_size": 1}, "start is any; .* batch_size is 1; it must be at least 2; set --batch-size"),
        ({"start": "all"}, "start is 'all'; it must be .* or random or centre or zeros or any or lizard"),
    ],
)
def test_growing_from_anything_needs_a_border_and_several_samples(more, message):
    with pytest.raises(SamebitsError, match=message):
        from_anything(**more)


def test_what_grows_from_anything_has_one_hash_for_all_workers_and_when_resumed(tmp_path):
    settings = {"preset": "small", "target": "heart", "start": "any", "boundary": "zeros", "batch_size": 3}
    settings |= {"ca_steps": 3, "loss_steps": (2, 3), "harden_from": 0.0, "eval_every": 2, "schedule_steps": 4}
    whole = samebits.train("grow", steps=4, workers=1, out=tmp_path / "whole", **settings)
    samebits.train("grow", steps=3, workers=2, out=tmp_path / "parts", **settings)
    parts = samebits.resume(tmp_path / "parts", steps=4, workers=3)
    assert parts.weights_hash == whole.weights_hash
    other = samebits.train("grow", steps=4, workers=1, out=tmp_path / "other", **{**settings, "start": "random"})
    assert other.weights_hash != whole.weights_hash


def test_a_checkerboard_does_not_begin_with_a_cell():
    with pytest.raises(SamebitsError, match=r"start is any; checkerboard grows from random bits.*; use start=random"):
        configured(find_preset("checkerboard", "small"), {"start": "any"})


def test_random_bits_know_where_they_are_from_the_border_alone():
    dot = np.zeros((21, 21), bool)
    dot[10, 10] = True
    config = from_anything(target=dot, ca_steps=9)
    with pytest.raises(SamebitsError, match=r"ca_steps is 9; .* needs at least 10"):
        check_reach(config)
    check_reach(configured(config, {"ca_steps": 10}))
    check_reach(configured(config, {"start": "centre", "ca_steps": 9}))


def test_a_picture_out_of_reach_is_refused_with_the_steps_it_takes():
    large = configured(find_preset("grow", "full"), {"target": np.indices((64, 64)).sum(axis=0) % 2})
    with pytest.raises(SamebitsError, match=r"ca_steps is 12; .* 64×64 cells needs at least 32 .* --set ca_steps=32"):
        check_reach(large)
    check_reach(configured(large, {"ca_steps": 32}))
    check_reach(configured(large, {"target": np.indices((64, 64)).max(axis=0) == 40, "ca_steps": 40}))
    dot = np.zeros((64, 64), bool)
    dot[30:34, 30:34] = True
    check_reach(configured(large, {"target": dot}))  # far away nothing but background
    with pytest.raises(SamebitsError, match=r"the first of loss_steps is 9; .* begin --set loss_steps with 12 or more"):
        check_reach(configured(large, {"target": np.eye(24, dtype=bool), "loss_steps": (9, 12)}))
    with pytest.raises(SamebitsError, match="start is zeros on a torus"):
        check_reach(configured(large, {"start": "zeros"}))
    letter = configured(find_preset("letter", "full"), {"target": np.eye(40, dtype=bool)})
    with pytest.raises(SamebitsError, match=r"ca_steps is 15; .* needs at least 20"):
        check_reach(letter)


@pytest.mark.parametrize(("task", "key"), [("grow", "target"), ("grow", "start"), ("life", "rule")])
def test_a_config_opens_no_file_and_calls_no_function(task, key, tmp_path):
    """Who reads settings does (settings.py); a config only checks what came of it."""
    path, called = tmp_path / "drawing.txt", []
    path.write_text("...\n.#.\n...\n" if key != "rule" else "B3/S23")
    for given in (str(path), path, lambda *where: called.append(where), np.eye(5)):
        with pytest.raises(SamebitsError, match=f"{key} is .* a config keeps"):
            override(find_preset(task, "small"), {key: given})
    assert called == []
