"""The command line. `main` turns errors into one line and an exit code.

0: success. 1: refused or failed. 2: the command line itself is wrong.
"""

import atexit
import gc
import os
import sys

from jobauto_prefect.cli.output.errors import complain, run_explained


def main() -> None:
    """Run the command in this process's arguments; never returns."""
    # Open missing standard streams as /dev/null. Otherwise the next opened file would take their
    # place, and receive what is meant for people.
    missing = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in missing:
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    if "stdout" in missing:
        complain("standard output is closed; results are not shown")
    # Garbage collections every 700 objects while modules load, and at exit, take a third of a
    # command's time.
    gc.set_threshold(10_000)
    atexit.register(gc.freeze)
    from jobauto_prefect.cli.app import app
    from jobauto_prefect.cli.service.addresses import help_epilog

    app.info.epilog = help_epilog()
    debug = "--debug" in sys.argv
    words = [argument for argument in sys.argv[1:] if argument != "--debug"]
    run_explained(lambda: app(words, prog_name="jobauto"), debug=debug)
