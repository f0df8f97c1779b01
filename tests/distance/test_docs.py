"""The examples in docs/distance.md print what the page says, and the package is found the way it says."""

import doctest
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "distance.md"


def test_the_examples_of_the_page_run():
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.attempted > 15
    assert found.failed == 0


def test_samebits_does_not_import_it_until_asked():
    code = (
        "import sys, samebits; assert 'samebits.distance' not in sys.modules; samebits.distance.Graph; "
        "from samebits import distance"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
