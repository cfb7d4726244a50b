"""The benchmarks measure little of each, with what is installed for the tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import OTHERS, SUITE
from tests.support.databases import POSTGRESQL, database
from tests.support.installed import installed_programs
from tests.support.paths import ROOT
from tests.support.processes import clean_environment


@pytest.mark.soak
@pytest.mark.parametrize("name", [*SUITE, *OTHERS])
def test_each_row_of_a_benchmark_has_a_value_and_its_yardstick(name: str, tmp_path: Path) -> None:
    known = {
        "JOBAUTO_BENCH_PROGRAMS": str(installed_programs()),
        "JOBAUTO_BENCH_POSTGRESQL_URL": POSTGRESQL,
    }
    argv = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--json"]
    with database("postgresql", tmp_path):  # skipped where there is none
        ran = subprocess.run(
            argv, cwd=ROOT, env=clean_environment() | known, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert rows
    for row in rows:
        assert row["value"] is not None
        assert row["yardstick_value"] is not None
        assert row["met"] in (True, False)
