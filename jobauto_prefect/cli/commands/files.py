"""`jobauto files`: the files that come with the package, for those who install it by pip."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from jobauto_prefect.cli.options import Json
from jobauto_prefect.cli.output.terminal import print_json, print_line
from jobauto_prefect.errors import Conflict, NotReady
from jobauto_prefect.wording import pluralize

FOLDER = "deployments"
EXAMPLES = f"{FOLDER}/examples"
PINS = "constraints.txt"


def files(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="A new folder, or an empty one.")
    ],
    as_json: Json = False,
) -> None:
    """Write the files that come with the package: units, compose, chart, examples, man page.

    constraints.txt has the versions of dependencies that this release was tested with.

    Example: jobauto files jobauto-files
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Conflict(f"{directory} is not an empty folder; name a new one")
    written = sorted(str(path) for path in _write(directory))
    if as_json:
        print_json({"directory": str(directory), "files": written})
        return
    for path in written:
        print_line(str(directory / path))
    print_line(f"{pluralize(len(written), 'file')} written")


def _write(directory: Path) -> Iterator[Path]:
    source = shipped(FOLDER)
    for path in source.rglob("*"):
        if path.is_file():
            target = directory / FOLDER / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)  # with its mode: some are programs
            yield target.relative_to(directory)
    shutil.copy(shipped(PINS), directory / PINS)
    yield Path(PINS)


def shipped(name: str) -> Path:
    """Find a file or folder that comes with the package, installed or in the repository.

    Raises:
        NotReady: it is in neither.
    """
    package = Path(__file__).parents[2]
    for path in (package / "files" / name, package.parent / name):
        if path.exists():
            return path
    raise NotReady(f"{name} is not installed; install the package again")
