"""Processes whose wall clock is off."""

import os
import shutil
import subprocess

import pytest

FAKED = ("LD_PRELOAD", "FAKETIME")


def require_faketime() -> None:
    """Skip the test where faketime is missing, or fail it where all services are required."""
    if shutil.which("faketime") is None:
        if os.environ.get("JOBAUTO_TEST_REQUIRE_SERVICES") == "1":
            pytest.fail("faketime is not installed")
        pytest.skip("faketime is not installed")


def faked(offset: str) -> dict[str, str]:
    """The environment of a process whose wall clock is off by so much, and no other clock."""
    require_faketime()
    argv = ["faketime", "--exclude-monotonic", "-f", offset, "env"]
    output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    variables = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    return {name: variables[name] for name in FAKED} | {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}
