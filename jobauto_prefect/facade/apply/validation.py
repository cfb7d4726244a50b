"""Cross-record validation of files, also against existing records."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobauto_prefect.compiler import schedule_faults, zone_of
from jobauto_prefect.definitions import Definition, parse, to_text
from jobauto_prefect.definitions.records.credentials import (
    addresses,
    missing_fields,
    secret_keywords,
    value_faults,
)
from jobauto_prefect.definitions.records.source_addresses import changed_address_fields
from jobauto_prefect.definitions.records.value_rules import ValueRules
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.record_index import RecordIndex
from jobauto_prefect.facade.apply.record_kinds import (
    APPS,
    COMPANIES,
    FILES,
    TEMPLATES,
    Key,
    Named,
    Record,
    Word,
)
from jobauto_prefect.facade.apply.refusals import Refusals
from jobauto_prefect.facade.http.errors import MOST_TOLD
from jobauto_prefect.kinds import FILE_KINDS
from jobauto_prefect.wording import pluralize


def raise_faults(faults: Sequence[Fault]) -> None:
    """Raise `InvalidInput` if there are errors."""
    if len(faults) == 1 and faults[0].file is None:
        raise InvalidInput(faults, f"{faults[0].message}; nothing was changed")
    if faults:
        fault_count, files = pluralize(len(faults), "error"), len({fault.file for fault in faults})
        told = "" if len(faults) <= MOST_TOLD else f"; these are the first {MOST_TOLD}"
        message = f"{fault_count} in {pluralize(files, 'file')}; nothing was changed{told}"
        raise InvalidInput(faults[:MOST_TOLD], message)


class Validator:
    """Checks documents that are valid by themselves, in the order of writing."""

    def __init__(
        self,
        index: RecordIndex,
        documents: Sequence[Document],
        secrets: Collection[str] = (),
        refused: Refusals | None = None,
    ) -> None:
        """Prepare to validate documents against the records of an index.

        `secrets` are the names of secrets written together with the documents; `refused` are other
        records of the same files.
        """
        self._index = index
        self._secrets = secrets
        self._refused = refused or Refusals()
        self._documents = documents
        self._given: dict[str, list[Record]] = {kind: [] for kind in FILES}
        self._of_word: dict[tuple[str, Word], list[Record]] = defaultdict(list)
        self._replaced: set[tuple[str, int | None]] = set()
        for each in documents:
            kind = each.kind or ""
            content = index.with_owner(kind, each.content)
            self._given[kind].append(content)
            self._replaced.add((kind, index.id_of(kind, content)))
            for word in FILES[kind].by_words(content):
                self._of_word[kind, word].append(content)
        self._definitions: dict[int, Definition] = {}
        self._waits = False

    def faults(self) -> Iterator[Fault]:
        """Yield every error with its place in its file."""
        for document, faults, _ in self.check_documents():
            yield from map(document.locate_fault, faults)

    def check_documents(self) -> Iterator[tuple[Document, list[Fault], bool]]:
        """Yield each document, its errors, and whether it may refer to a rejected one."""
        seen: dict[tuple[str, Key], Document] = {}
        for document in self._documents:
            self._waits = False
            look = CHECKS.get(document.kind or "")
            faults = [
                *self._repeated(document, seen),
                *self._references(document),
                *(look(self, document.content) if look else ()),
            ]
            yield document, faults, self._waits

    def _repeated(
        self, document: Document, seen: dict[tuple[str, Key], Document]
    ) -> Iterator[Fault]:
        kind = document.kind or ""
        key = kind, FILES[kind].key(self._index.with_owner(kind, document.content))
        if key in seen:
            message = f"is declared twice, first in {seen[key].file}; remove one"
            yield Fault("", "duplicate", message)
        seen.setdefault(key, document)

    def _references(self, document: Document) -> Iterator[Fault]:
        """Check that what a record refers to exists, or is in the files."""
        form = FILES[document.kind or ""]
        for named in (*form.named(document.content), *form.started(document.content)):
            # The topics of a definition may be words without a topic record.
            is_word = form is APPS and named.pointer.startswith("/topics/")
            if not is_word and not self._meant(named):
                if self._refused.may_be(named):
                    self._waits = True
                else:
                    message = f"there is no {FILE_KINDS[named.kind].noun} {named.title!r}"
                    yield Fault(named.pointer, "reference", message)

    def of_company(self, content: Record) -> Iterable[Fault]:
        """Check a company: its time zone, and values that all its applications get."""
        yield from _faults_raised(zone_of, content.get("timezone") or "UTC")
        values = content.get("env", {})
        yield from ValueRules().faults(self._names("company", content), values)
        owners = (None, content["slug"])
        apps = [app for app in self._all_of("app") if APPS.owner(app) in owners] if values else []
        secret = {key for app in apps for key in self._definition(app).secret_keys}
        where = f"jobauto company set {content['slug']}"
        yield from _secrets("env", values, secret, where)

    def of_template(self, content: Record) -> Iterable[Fault]:
        """Check a run template: its application, its values, its schedule."""
        app = next(
            each for each in TEMPLATES.named(content) if each.pointer in ("/app", "/app_uuid")
        )
        matching = self._meant(app)
        if len(matching) > 1:
            message = "several applications have this name; use app_uuid"
            yield Fault(app.pointer, "reference", message)
        elif matching:
            definition, values = self._definition(matching[0]), content.get("env", {})
            rules = ValueRules(definition, self._index.extra_env)
            yield from rules.faults(self._names(TEMPLATES.item, content), values)
            where = f"jobauto template set '{TEMPLATES.title(content)}'"
            yield from _secrets("env", values, definition.secret_keys, where)
        yield from schedule_faults(content, self._zone_of_company(content["company"]))

    def _zone_of_company(self, slug: str) -> str:
        """Return the time zone of a company's run templates."""
        company = next(iter(self._meant(Named("/company", "company", slug, None))), {})
        zone: str = company.get("timezone") or self._index.timezone
        is_wrong = any(_faults_raised(zone_of, zone))  # reported at its own record
        return self._index.timezone if is_wrong else zone

    def _definition(self, app: Record) -> Definition:
        """Parse a definition once for all run templates that use it."""
        if id(app) not in self._definitions:
            self._definitions[id(app)] = parse(app)
        return self._definitions[id(app)]

    def _names(self, kind: str, content: Record) -> list[str]:
        """Return the names of the values that a record has once its file is applied."""
        given = content.get("env", {})
        number = self._index.id_of(kind, content) if given else None
        stored = self._index.records[kind][number]["env"] if number else {}
        return [name for name in {**stored, **given} if given.get(name, "") is not None]

    def of_credential(self, content: Record) -> Iterable[Fault]:
        """Check a credential: only values of its type, and no secrets."""
        type_named = next(
            each
            for each in FILES["credential"].named(content)
            if each.pointer == "/credential_type"
        )
        kind = next(iter(self._meant(type_named)), None)
        if kind is None:
            return
        fields, values = kind.get("fields", ()), content.get("values", {})
        secret = secret_keywords(fields)
        given = {name: value for name, value in values.items() if name not in secret}
        yield from value_faults(fields, given)
        new = self._index.id_of("credential", content) is None
        for field in missing_fields(fields, {name for name in given if given[name] is not None}):
            if given and new and field["keyword"] not in secret:
                yield Fault("/values", "required", f"{field['keyword']} is required")
        where = f"jobauto credential set '{FILES['credential'].title(content)}'"
        yield from _secrets("values", values, secret, where)
        if not new:
            yield from self._moved(content, fields, where)

    def _moved(self, content: Record, fields: Sequence[Record], command: str) -> Iterator[Fault]:
        """Check that a credential's secrets are only sent to the address they were set for."""
        record = self._record("credential", content) or {}
        kind = self._index.find_by_title("credential_type", record["credential_type"])
        before = self._index.records["credential_type"][kind]["fields"] if kind else ()
        values = {**record["values"], **content.get("values", {})}
        texts = {name: to_text(value) for name, value in values.items() if value is not None}
        now, then = addresses(before, record["values"]), addresses(fields, texts)
        changed = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
        kept = {name for name, text in texts.items() if text == MASK} - set(self._secrets)
        for name in sorted(kept) if changed else ():
            together = f"{command} --env {changed[0]}=… --secret {name}"
            yield _resubmission_fault(f"/values/{name}", changed, together)

    def of_source(self, content: Record) -> Iterable[Fault]:
        """Check that an event source's password is only sent to the address it was set for."""
        record = self._record("eventsource", content)
        if record is None or not record["db_password"] or "db_password" in self._secrets:
            return
        changed = changed_address_fields(record, {**record, **content})
        if changed:
            name = FILES["eventsource"].title(content)
            command = f"jobauto source set '{name}' {changed[0]}=… --secret db_password"
            yield _resubmission_fault("/db_password", changed, command)

    def _record(self, kind: str, content: Record) -> Record | None:
        """Return the existing record; None: it is new."""
        number = self._index.id_of(kind, content)
        return None if number is None else self._index.records[kind][number]

    def _meant(self, named: Named) -> list[Record]:
        """Return what a reference may mean, in files or service; applications may be several."""
        kind = named.kind
        for word in FILES[kind].words_meant(named):
            numbers = self._index.find_all(kind, word)
            stays = [number for number in numbers if (kind, number) not in self._replaced]
            records = self._index.records[kind]
            if found := [*self._of_word.get((kind, word), ()), *(records[each] for each in stays)]:
                return found
        return []

    def _all_of(self, kind: str) -> list[Record]:
        """Return the records of a kind as they are once the files are applied."""
        records = self._index.records[kind].items()
        stays = [record for number, record in records if (kind, number) not in self._replaced]
        return [*self._given[kind], *stays]


def _resubmission_fault(pointer: str, changed: Sequence[str], command: str) -> Fault:
    message = f"was set for another {' and '.join(changed)}; change them together: {command}"
    return Fault(pointer, "secret", message)


CHECKS: Mapping[str, Callable[[Validator, Record], Iterable[Fault]]] = {
    COMPANIES.item: Validator.of_company,
    TEMPLATES.item: Validator.of_template,
    "credential": Validator.of_credential,
    "eventsource": Validator.of_source,
}
"""What is checked in records of a kind, besides their references."""


def _secrets(
    member: str, values: Mapping[str, Any], secret: Iterable[str], command: str
) -> Iterator[Fault]:
    """Refuse secrets in files, which are under version control; masked ones stay as they are."""
    for name in secret:
        if values.get(name) not in (None, "", MASK):
            message = (
                f"{name} is secret, and files hold no secrets; "
                f"set it with: {command} --secret {name}"
            )
            yield Fault(f"/{member}/{name}", "secret", message)


def _faults_raised(checking: Callable[..., object], *arguments: Any) -> Iterable[Fault]:
    try:
        checking(*arguments)
    except InvalidInput as error:
        return error.faults
    return ()
