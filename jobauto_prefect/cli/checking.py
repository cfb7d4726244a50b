"""What is wrong with the records of files together, and with regard to what is there."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobauto_prefect.cli.actions import references
from jobauto_prefect.cli.documents import Document
from jobauto_prefect.cli.kinds import KINDS, NOUNS, Key, Record, key_of, means, title_of
from jobauto_prefect.cli.known import Known
from jobauto_prefect.compiler import timing_faults, zone_of
from jobauto_prefect.definitions import parse
from jobauto_prefect.definitions.credentials import missing, secret_keywords, value_faults
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.values import refuse_faults, secret_keys
from jobauto_prefect.ledger.secrets import MASK


def refuse(faults: Sequence[Fault]) -> None:
    """Raise `InvalidInput` where there are faults."""
    if faults:
        files = len({fault.file for fault in faults})
        place = f"{files} files" if files > 1 else "the file"
        count = f"{len(faults)} faults" if len(faults) > 1 else "a fault"
        raise InvalidInput(faults, f"there are {count} in {place}; nothing was changed")


class Checker:
    """Looks at documents that are each valid by themselves, in the order of writing."""

    def __init__(self, known: Known, documents: Sequence[Document]) -> None:
        self._known = known
        self._documents = documents
        self._given: dict[str, dict[str, Record]] = {kind: {} for kind in KINDS}
        for each in documents:
            kind = each.kind or ""
            self._given[kind].setdefault(title_of(kind, each.content), each.content)
        given = [each.content for each in documents if each.kind == "app"]
        replaced = {known.id_of("app", content) for content in given}
        others = (app for number, app in known.records["app"].items() if number not in replaced)
        self._apps = [*given, *others]

    def faults(self) -> Iterator[Fault]:
        """Everything wrong, with its place in its file."""
        yield from self._repeated()
        for document in self._documents:
            look = LOOKS.get(document.kind or "")
            found = [*self._references(document), *(look(self, document.content) if look else ())]
            yield from map(document.placed, found)

    def _repeated(self) -> Iterator[Fault]:
        seen: dict[tuple[str | None, Key], Document] = {}
        for document in self._documents:
            key = document.kind, key_of(document.kind or "", document.content)
            if key in seen:
                message = f"is there twice, first in {seen[key].file}"
                yield document.placed(Fault("", "duplicate", message))
            seen.setdefault(key, document)

    def _references(self, document: Document) -> Iterator[Fault]:
        """All references but those to applications."""
        for name, one in KINDS[document.kind or ""].references.items():
            title = document.content.get(name)
            if one.kind == "app" or title is None or title in self._given[one.kind]:
                continue
            if self._known.titled(one.kind, title) is None:
                yield Fault(f"/{name}", "reference", f"there is no {NOUNS[one.kind]} {title!r}")

    def _actions(self, content: Record) -> Iterator[Fault]:
        """What the actions of a run template start is there, or in the files."""
        for pointer, kind, title in references(content):
            there = title in self._given[kind] or self._known.titled(kind, title) is not None
            if kind == "app":
                there = any(means({"app": title}, app) for app in self._apps)
            if not there:
                yield Fault(pointer, "reference", f"there is no {NOUNS[kind]} {title!r}")

    def of_company(self, content: Record) -> Iterable[Fault]:
        """A company: its zone, and values that all applications may be given."""
        yield from _raised(zone_of, content.get("timezone") or "UTC")
        values = content.get("env", {})
        yield from _raised(refuse_faults, values, None)
        secret = {key for app in self._apps for key in secret_keys(parse(app))}
        where = f"jobauto company set {content['slug']}"
        yield from _secrets("env", values, secret, where)

    def of_template(self, content: Record) -> Iterable[Fault]:
        """A run template: its application, its credentials, its values, its schedule."""
        yield from self._credentials(content)
        meant = [app for app in self._apps if means(content, app)]
        member = "app" if "app" in content else "app_uuid"
        if not meant:
            message = f"there is no application {content[member]!r}"
            yield Fault(f"/{member}", "reference", message)
        elif len(meant) > 1:
            yield Fault(f"/{member}", "reference", "several applications have it; use app_uuid")
        else:
            definition, values = parse(meant[0]), content.get("env", {})
            yield from _raised(refuse_faults, values, definition)
            where = f"jobauto template set '{title_of('runtemplate', content)}'"
            yield from _secrets("env", values, secret_keys(definition), where)
        yield from timing_faults(content, "UTC")
        yield from self._actions(content)

    def _credentials(self, content: Record) -> Iterator[Fault]:
        for place, title in enumerate(KINDS["runtemplate"].titles("credentials", content)):
            there = title in self._given["credential"]
            if not there and self._known.titled("credential", title) is None:
                message = f"there is no {NOUNS['credential']} {title!r}"
                yield Fault(f"/credentials/{place}", "reference", message)

    def of_credential(self, content: Record) -> Iterable[Fault]:
        """A credential: values its type has, and none of the secret ones."""
        kind = self._type(content["credential_type"])
        if kind is None:
            return
        fields, values = kind.get("fields", ()), content.get("values", {})
        secret = secret_keywords(fields)
        given = {name: value for name, value in values.items() if name not in secret}
        yield from value_faults(fields, given)
        new = self._known.id_of("credential", content) is None
        for one in missing(fields, {name for name in given if given[name] is not None}):
            if given and new and one["keyword"] not in secret:
                yield Fault("/values", "required", f"{one['keyword']} is required")
        where = f"jobauto credential set '{title_of('credential', content)}'"
        yield from _secrets("values", values, secret, where)

    def _type(self, code: str) -> Record | None:
        given = self._given["credential_type"].get(code)
        number = self._known.titled("credential_type", code)
        return given or (self._known.records["credential_type"][number] if number else None)


LOOKS: Mapping[str, Callable[[Checker, Record], Iterable[Fault]]] = {
    "company": Checker.of_company,
    "runtemplate": Checker.of_template,
    "credential": Checker.of_credential,
}
"""What is looked at in records of a kind, beside their references."""


def _secrets(
    member: str, values: Mapping[str, Any], secret: Iterable[str], command: str
) -> Iterator[Fault]:
    """Files are kept under version control: no place for secrets. Masked ones stay as they are."""
    for name in secret:
        if values.get(name) not in (None, "", MASK):
            message = f"{name} is secret, and files hold no secrets: {command} --secret {name}"
            yield Fault(f"/{member}/{name}", "secret", message)


def _raised(checking: Callable[..., object], *arguments: Any) -> Iterable[Fault]:
    try:
        checking(*arguments)
    except InvalidInput as error:
        return error.faults
    return ()
