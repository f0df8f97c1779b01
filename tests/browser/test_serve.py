"""The pages of samebits serve in a browser: runs, a live curve, a streamed text, a rewriting, the playground."""

from __future__ import annotations

import re

import pytest

import samebits
from tests.serve.conftest import runs, serving  # noqa: F401  # a fixture

pytestmark = pytest.mark.browser
COMPILING = 120_000  # milliseconds: the first text of a new machine waits for its kernels
LOOKS = {
    "desktop-light": {},
    "desktop-dark": {"color_scheme": "dark"},
    "phone-light": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "phone-dark": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "color_scheme": "dark"},
}


@pytest.fixture(scope="module")
def server(runs):  # noqa: F811
    with serving(runs) as found:
        yield found


def expect(what):
    """Playwright is there for make test-browser only, and pytest reads this file before."""
    from playwright.sync_api import expect as expected

    return expected(what)


def fits(page):
    """Nothing makes the page wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_opens_in_every_look(server, visit, picture, look):
    page = visit(f"{server.url}/", **LOOKS[look])
    page.wait_for_selector("#rows tr")
    assert fits(page)
    picture(page, f"serve-runs-{look}")
    for name in ("gpt", "boolean", "deep/board", "scrambled"):
        page.goto(f"{server.url}/run?id={name}")
        page.wait_for_selector("#facts dd")
        if name == "gpt":
            page.click("#write")
            expect(page.locator("#told")).to_contain_text("a second", timeout=COMPILING)
        if name == "boolean":
            page.click("#rewrite button")
            page.wait_for_selector("#steps svg")
        if name == "deep/board":
            page.wait_for_selector("#playground canvas")
        assert fits(page), name
        picture(page, f"serve-{name.replace('/', '-')}-{look}")


def test_runs_are_sorted_filtered_and_opened(server, visit):
    page = visit(f"{server.url}/")
    page.wait_for_selector("#rows tr")
    names = lambda: page.locator("#rows td:first-child a").all_inner_texts()  # noqa: E731
    assert len(names()) == 7
    page.click("#heads th:first-child button")
    assert names() == sorted(names(), key=str.lower)
    page.click("#heads th:first-child button")
    assert names() == sorted(names(), key=str.lower, reverse=True)
    page.fill("#filter", "damaged")
    assert set(names()) == {"half", "broken", "scrambled"}
    assert "half written" in page.inner_text("#rows")
    page.fill("#filter", "gpt small")
    page.keyboard.press("Tab")
    page.click("#rows a")
    page.wait_for_selector("#write")
    assert page.inner_text("h1") == "gpt"


def test_two_runs_are_laid_over_each_other(server, visit):
    page = visit(f"{server.url}/")
    page.wait_for_selector("#rows tr")
    for name in ("gpt", "boolean"):
        page.check(f"[aria-label='compare {name}']")
    page.click("#compare")
    chart = page.locator(".charts canvas").first
    expect(chart).to_have_attribute("aria-label", re.compile("gpt loss.*boolean loss|boolean loss.*gpt loss"))
    page.click("#log")
    assert page.get_attribute("#log", "aria-pressed") == "true"


def test_a_live_curve_grows(server, visit, runs):  # noqa: F811
    page = visit(f"{server.url}/run?id=gpt")
    chart = page.locator(".charts canvas").first
    expect(chart).to_have_attribute("aria-label", re.compile("at step 20"))
    before = int(chart.get_attribute("data-points"))
    metrics = runs / "gpt" / "metrics.csv"
    kept = metrics.read_text()
    row = kept.splitlines()[-1].split(",")
    try:
        with metrics.open("a") as file:
            for step in range(21, 31):
                file.write(",".join([str(step), *row[1:]]) + "\n")
        expect(chart).to_have_attribute("aria-label", re.compile("at step 30"))
        assert int(chart.get_attribute("data-points")) >= before + 10
    finally:
        metrics.write_text(kept)


def test_a_text_is_streamed_with_its_probabilities(server, visit, runs):  # noqa: F811
    page = visit(f"{server.url}/run?id=gpt")
    page.fill("#prompt", "the ")
    page.fill("#max_tokens", "40")
    page.fill("#seed", "3")
    page.click("#write")
    expect(page.locator("#told")).to_contain_text("40 tokens")
    written = page.evaluate("[...document.querySelectorAll('#paper [data-at]')].map((one) => one.textContent).join('')")
    assert written == samebits.load(runs / "gpt").generate("the ", tokens=40, seed=3)[0]
    page.hover("#paper [data-at='7']")
    assert page.locator("#alternatives span.taken").count() == 1
    assert page.locator("#alternatives span").count() >= 8
    page.focus("#paper")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#paper .chosen", "data-at") == "8"


def test_an_expression_is_rewritten_and_judged(server, visit):
    page = visit(f"{server.url}/run?id=boolean")
    page.fill("#expression", "(and x T)")
    page.keyboard.press("Enter")
    page.wait_for_selector("#steps figure:nth-child(2)")
    assert "by the rules" in page.inner_text("#judged") or "the rules come to the same" in page.inner_text("#judged")
    assert page.locator("#steps figure:first-child svg rect").count() == 4


def test_the_playground_plays_any_checkpoint(tmp_path_factory, visit):
    folder = tmp_path_factory.mktemp("slide") / "runs"
    samebits.train("checkerboard", preset="small", out=folder / "board", steps=3, checkpoint_every=1, eval_every=0)
    with serving(folder) as server:
        page = visit(f"{server.url}/run?id=board")
        page.wait_for_selector("#playground canvas")
        assert page.inner_text("#at") == "step 3"
        page.focus("#checkpoint")
        page.keyboard.press("Home")
        expect(page.locator("#at")).to_have_text("step 1")
        expect(page.locator("#loading")).to_have_text("")
        page.wait_for_selector("#playground canvas")
        page.goto("about:blank")


def test_a_folder_without_runs_says_what_to_type(tmp_path, visit):
    with serving(tmp_path) as server:
        page = visit(f"{server.url}/")
        page.wait_for_selector("#empty pre")
        assert page.inner_text("#empty pre") == "samebits train checkerboard --preset small"
        page.goto("about:blank")
