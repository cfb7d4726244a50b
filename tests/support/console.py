"""The console, as a browser speaks to it, and somebody who signs in to it."""

import html
import re

import httpx
from sqlalchemy import select

from jobauto_prefect import certificates
from jobauto_prefect.facade.auth.passwords import hash_password
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.store import Ledger
from tests.support.secrets import SAYS_NO_SECRET, secret
from tests.support.servers import user_token

PASSWORD = secret("kůň & heslo 1")
COOKIE = "jobauto_session"
"""Over HTTPS with a prefix; over plain HTTP see `cookie_name`."""


def cookie_name(url: str) -> str:
    """What the cookie is called that a facade at this address over plain HTTP has."""
    return f"{COOKIE}_{httpx.URL(url).port}"


def add_user(ledger: Ledger, login: str = "eva", *roles: str) -> None:
    """Add somebody with a password; without roles named a super_admin."""
    user_token(ledger, login, roles or ("super_admin",))
    with ledger.writing(SERVICE) as session:
        user = session.scalars(select(User).where(User.login == login)).one()
        user.password_hash = hash_password(PASSWORD)


def visitor(url: str, language: str = "en") -> httpx.Client:
    """A browser on a page of this service: it follows nothing by itself."""
    headers = {"Accept": "text/html", "Accept-Language": language}
    verify = certificates.needs_certificates(url)
    return httpx.Client(
        base_url=url, headers=headers, timeout=20, event_hooks=SAYS_NO_SECRET, verify=verify
    )


def submit(
    browser: httpx.Client,
    login: str = "eva",
    password: str = PASSWORD,
    wanted: str | None = None,
) -> httpx.Response:
    """Send the form of the sign-in page."""
    fields = {"login": login, "password": password}
    fields |= {} if wanted is None else {"next": wanted}
    return post(browser, "/login.html", fields)


def post(browser: httpx.Client, path: str, fields: dict[str, str] | None = None) -> httpx.Response:
    """Send a form of one of the console's pages, as browsers do."""
    origin = str(browser.base_url).rstrip("/")
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    return browser.post(path, data=fields or {}, headers=headers)


def post_file(
    browser: httpx.Client,
    path: str,
    fields: dict[str, str],
    pointer: str,
    content: bytes,
    media_type: str = "image/png",
) -> httpx.Response:
    """Send a form with a file, as browsers do; without content none was chosen."""
    end = "--a-boundary"
    disposition = f'{end}\r\nContent-Disposition: form-data; name="{{}}"'
    parts = [f"{disposition.format(name)}\r\n\r\n{text}\r\n" for name, text in fields.items()]
    name = "chosen" if content else ""
    parts.append(
        f'{disposition.format(f"file:{pointer}")}; filename="{name}"\r\n'
        f"Content-Type: {media_type}\r\n\r\n"
    )
    body = "".join(parts).encode() + content + f"\r\n{end}--\r\n".encode()
    headers = {
        "Origin": str(browser.base_url).rstrip("/"),
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": f"multipart/form-data; boundary={end.removeprefix('--')}",
    }
    return browser.post(path, content=body, headers=headers)


def links(page: str) -> set[str]:
    """The addresses to which a page leads."""
    found = re.findall(r'href="(/[^"]*)"', page)
    return {address.replace("&amp;", "&") for address in found}


def form_fields(page: str) -> dict[str, str]:
    """What a browser would send of a form without anything changed."""
    form = page.split('<form class="record-form"')[1].split("</form>", maxsplit=1)[0]
    fields = {}
    for attributes in re.findall(r"<input ([^>]*)>", form):
        is_unticked = 'type="checkbox"' in attributes and "checked" not in attributes
        if is_unticked or 'type="file"' in attributes:
            continue
        name = re.search(r'name="([^"]*)"', attributes)
        value = re.search(r'value="([^"]*)"', attributes)
        assert name is not None
        fields[html.unescape(name[1])] = html.unescape(value[1]) if value else ""
    for name, text in re.findall(
        r'<textarea[^>]*name="([^"]*)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL
    ):
        fields[html.unescape(name)] = html.unescape(text)
    for name, options in re.findall(
        r'<select[^>]*name="([^"]*)".*?>(.*?)</select>', form, re.DOTALL
    ):
        chosen = re.search(r'value="([^"]*)" selected', options)
        first = re.search(r'value="([^"]*)"', options)
        fields[html.unescape(name)] = html.unescape((chosen or first or [""] * 2)[1])
    return fields
