"""A real SMTP server on this machine, for tests."""

import contextlib
import email
import email.policy
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.ports import free_port

USER, PASSWORD = "jobauto", "pass-of-the-mail-server"


@dataclass(slots=True)
class MailServer:
    """What came; `refused` are recipients that it does not know, `answers` what it says first."""

    port: int
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    answers: list[str] = field(default_factory=list)


class _Handler:
    def __init__(self, server: MailServer) -> None:
        self._server = server

    async def handle_RCPT(  # noqa: N802 - the hook's name
        self, _smtp: SMTP, _session: Session, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if address in self._server.refused:
            return "550 nobody here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - the hook's name
        self, _smtp: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        if self._server.answers:
            return self._server.answers.pop(0)
        content = envelope.content
        assert isinstance(content, bytes)
        mail = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        self._server.mails.append(mail)
        self._server.recipients += envelope.rcpt_tos
        return "250 OK"


@contextlib.contextmanager
def mail_server(
    port: int | None = None, certificate: tuple[Path, Path] | None = None, *, implicit: bool = False
) -> Iterator[MailServer]:
    """A server that accepts everything; with a certificate only over TLS, from those it knows.

    TLS begins with STARTTLS, or `implicit` at once.
    """
    made = MailServer(port or free_port())
    options: dict[str, Any] = {}
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        options = {"ssl_context": context} if implicit else {
            "tls_context": context, "require_starttls": True
        }  # fmt: skip
        options |= {
            "auth_required": True,
            "auth_require_tls": not implicit,
            "authenticator": _judge,
        }
    controller = Controller(_Handler(made), "127.0.0.1", made.port, ready_timeout=60, **options)
    controller.start()
    try:
        yield made
    finally:
        controller.stop(no_assert=True)


def _judge(_server: SMTP, _session: Session, _envelope: Envelope, _kind: str, data: Any) -> Any:
    known = isinstance(data, LoginPassword) and (data.login, data.password) == (
        USER.encode(),
        PASSWORD.encode(),
    )
    return AuthResult(success=known, handled=False)
