"""Sending mail by the SMTP server in the settings."""

import contextlib
import smtplib
import ssl
from collections.abc import Iterator
from email.message import EmailMessage

from jobauto_prefect.settings import Settings, SmtpSecurity

STEP_SECONDS = 15.0
"""Time limit for each of the eight steps of submitting a mail."""


class MailFailed(Exception):
    """A mail was not accepted; the message says why."""


def send(mail: EmailMessage, settings: Settings) -> None:
    """Submit a mail to the server.

    Raises:
        MailFailed: the server did not accept it.
    """
    with _sign_in(settings) as server:
        server.send_message(mail)


def try_server(settings: Settings) -> None:
    """Connect and sign in, as for a mail.

    Raises:
        MailFailed: nothing can be sent.
    """
    with _sign_in(settings) as server:
        server.noop()


@contextlib.contextmanager
def _sign_in(settings: Settings) -> Iterator[smtplib.SMTP]:
    if settings.smtp_host is None:
        raise MailFailed("there is no server for mail: set JOBAUTO_SMTP_HOST")
    try:
        with _connect(settings.smtp_host, settings) as server:
            if settings.smtp_user is not None:
                password = settings.smtp_password
                server.login(
                    settings.smtp_user, password.get_secret_value() if password is not None else ""
                )
            yield server
    except smtplib.SMTPRecipientsRefused as error:
        (code, text), *_ = error.recipients.values()
        raise MailFailed(f"the recipient is refused: {code} {_text(text)}") from None
    except smtplib.SMTPAuthenticationError as error:
        raise MailFailed(f"the sign-in is refused: {error.smtp_code}") from None
    except smtplib.SMTPResponseException as error:
        raise MailFailed(f"refused: {error.smtp_code} {_text(error.smtp_error)}") from None
    except ssl.SSLError as error:
        raise MailFailed(f"no safe connection: {error.reason or error}") from None
    except (smtplib.SMTPException, OSError) as error:
        raise MailFailed(f"it can't be reached ({type(error).__name__}: {error})") from None


def _connect(host: str, settings: Settings) -> smtplib.SMTP:
    port, security = settings.smtp_port_used, settings.smtp_tls
    if security is SmtpSecurity.TLS:
        context = ssl.create_default_context()
        return smtplib.SMTP_SSL(host, port, timeout=STEP_SECONDS, context=context)
    server = smtplib.SMTP(host, port, timeout=STEP_SECONDS)
    if security is SmtpSecurity.STARTTLS:
        try:
            server.starttls(context=ssl.create_default_context())
        except BaseException:
            server.close()
            raise
    return server


def _text(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return " ".join(text.split())[:200]
