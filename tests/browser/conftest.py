"""Pages in a real browser: the system's Chromium, headless, driven by Playwright. Only `make test-browser` has both."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    assert found, f"none of {', '.join(CHROMIUM)} is installed; use: make test-browser"
    with sync_playwright() as playwright:
        # Its sandbox needs rights that containers often do not have; the pages are our own.
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """visit(address, **context) opens a page; whatever it complains of fails the test, and so does any request."""
    contexts, problems = [], []

    def opened(address, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda asked: problems.append(asked.url) if is_elsewhere(asked.url, address) else None)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def is_elsewhere(url, address):
    """Whether a request leaves the page: its own host is fine, and what is written out in it."""
    host = address.split("/")[2]
    return not url.startswith(("data:", "about:", "blob:")) and url.split("/")[2] != host


@pytest.fixture
def picture(request):
    """picture(page, name) takes a screenshot, if SAMEBITS_SCREENSHOTS names a folder."""

    def taken(page, name):
        if folder := os.environ.get("SAMEBITS_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    return taken
