"""What a running `jobauto up` refuses, and whom it lets into its home."""

import socket
from pathlib import Path

from tests.support.ports import free_port
from tests.support.service import Service


def test_a_second_one_with_the_same_home_is_refused(service: Service) -> None:
    second = service.jobauto("up", "--api-port", str(free_port()))

    assert second.returncode == 1
    assert "runs with" in second.stderr


def test_a_port_that_is_in_use_is_named_with_its_option(service: Service, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ran = service.jobauto(
            "up", "--api-port", str(port), environment={"JOBAUTO_HOME": str(tmp_path / "home")}
        )

    assert ran.returncode == 1
    assert f":{port} can't be used" in ran.stderr
    assert "--api-port" in ran.stderr


def test_nobody_else_reaches_anything_in_the_home(service: Service) -> None:
    reached = {
        str(path.relative_to(service.home)): oct(path.stat().st_mode & 0o7777)
        for path in [service.home, *service.home.glob("*"), *(service.home / "logs").iterdir()]
        if path.stat().st_mode & 0o077
    }

    assert reached == {}
    assert (service.home / "ledger.db-wal").exists()
