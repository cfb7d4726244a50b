"""Where a worker's jobs have their directories."""

import shlex
import stat
from pathlib import Path

import pytest

from jobauto_prefect.errors import Conflict, NotReady
from jobauto_prefect.runtime.worker_config import load_worker_config
from jobauto_prefect.runtime.workspace import WorkerWorkspace
from jobauto_prefect.settings import RUN_AS_DIRECTORY, Settings


def modes(*paths: Path) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in paths]


@pytest.mark.parametrize(
    "worker",
    ["vm jobauto", "a;b", "$(id)", "it's", "a*?[b]", "a/../b", "..", ".x", "tab\there", "~a"],
)
def test_the_path_of_a_jobs_directory_is_one_plain_word_of_a_shell(
    tmp_path: Path, worker: str
) -> None:
    workspace = WorkerWorkspace.open(tmp_path, worker)
    assert workspace.path.parent == tmp_path
    assert shlex.quote(str(workspace.path)) == str(workspace.path)
    assert workspace.path.name not in (worker, ".", "..")
    workspace.close()


def test_workers_of_similar_names_have_a_place_each(tmp_path: Path) -> None:
    names = ["vm jobauto", "vm-jobauto", "vm;jobauto", "vm_jobauto", "vm  jobauto"]
    places = [WorkerWorkspace.open(tmp_path, name) for name in names]
    assert len({place.path for place in places}) == len(names)
    with pytest.raises(Conflict, match="works in"):
        WorkerWorkspace.open(tmp_path, names[0])
    for place in places:
        place.close()
    assert list(tmp_path.iterdir()) == []


def test_a_base_that_unquoted_scripts_would_take_apart_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="JOBAUTO_WORKER_DIRECTORY"):
        WorkerWorkspace.open(tmp_path / "my jobs", "w")
    assert list(tmp_path.iterdir()) == []


def test_what_is_made_on_the_way_is_as_open_as_the_place_itself(tmp_path: Path) -> None:
    for shared, mode in ((True, 0o711), (False, 0o700)):
        base = tmp_path / str(shared) / "jobs"
        workspace = WorkerWorkspace.open(base, "w", shared=shared)
        assert modes(base.parent, base, workspace.path) == [mode] * 3
        workspace.close()


def test_users_of_the_command_line_count_for_the_place_as_those_of_the_settings(
    tmp_path: Path,
) -> None:
    settings = Settings(home=tmp_path, worker_token="t")
    assert load_worker_config(settings, worker="w", pool="p").directory == tmp_path / "work"
    planned = load_worker_config(settings, worker="w", pool="p", run_as=["1=nobody"])
    assert (planned.directory, planned.run_as) == (RUN_AS_DIRECTORY, ("1=nobody",))
