"""The watch over event loops sees what holds one up in a part of the service."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.loops.plugin import slow_twice
from tests.support.paths import ROOT

PROGRAM = """
import asyncio
from jobauto_prefect.facade.console.jobs.artifact_previews import render_markdown

render_markdown("once")


async def serve():
    {call}(render_markdown, "# Heading\\n" * 20_000)


def run(work, text):
    work(text)


asyncio.run(serve())
"""


@pytest.mark.parametrize(("call", "is_slow"), [("run", True), ("await asyncio.to_thread", False)])
@pytest.mark.parametrize("place", ["", "tests/checkout"], ids=["here", "in a folder of tests"])
def test_what_runs_long_in_an_event_loop_is_named(
    call: str, is_slow: bool, place: str, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", PROGRAM.format(call=call), "start"]
    found = tmp_path / "found"
    found.mkdir()
    environment = {**os.environ, "WATCHED_LOOPS": str(found)}
    if place:
        checkout = tmp_path / place
        checkout.parent.mkdir()
        checkout.symlink_to(ROOT)
        environment["PYTHONPATH"] = f"{checkout}{os.pathsep}{os.environ['PYTHONPATH']}"
    subprocess.run(argv, env=environment, check=True)
    lines = [line for file in found.iterdir() for line in file.read_text().splitlines()]
    assert any("render_markdown" in line for line in lines) is is_slow


def test_a_pause_of_the_machine_is_no_slow_function() -> None:
    once = "569 ms in a test: /lib/futures.py:wrap:417 < /jobauto_prefect/engine/a.py:A.write:52"
    again = "160 ms in another: /jobauto_prefect/engine/a.py:A.write:50 < /jobauto_prefect/b.py:b:1"
    short = again.replace("160", "149")
    assert slow_twice([once, short]) == set()
    assert slow_twice([once, again]) == {"engine/a.py:A.write"}
