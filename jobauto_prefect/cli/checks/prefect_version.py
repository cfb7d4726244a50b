"""Whether the installed Prefect is one that the tests run on."""

from importlib.metadata import version

from jobauto_prefect.monitoring.finding import Finding

TESTED = ("3.8", "3.9")


def untested_prefect() -> list[str]:
    """Return a line that says so if the tests don't run on the installed Prefect."""
    installed = version("prefect")
    if installed.startswith(tuple(f"{release}." for release in TESTED)):
        return []
    return [f"Prefect {installed} is not tested with jobauto; {' and '.join(TESTED)} are"]


def prefect_version_finding() -> Finding:
    """Check the installed Prefect."""
    help_ = "pip install -c constraints.txt prefect (jobauto files writes constraints.txt)"
    for message in untested_prefect():
        return Finding("Prefect version", "warning", message, help_)
    return Finding("Prefect version", "ok", version("prefect"))
