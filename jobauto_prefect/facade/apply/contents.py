"""The contents of a set of files."""

from collections.abc import Iterable
from dataclasses import dataclass

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.apply.documents import (
    Document,
    check_document,
    drop_twins,
    read_documents,
)
from jobauto_prefect.facade.apply.refusals import Refusals


@dataclass(frozen=True, slots=True)
class Contents:
    """The records that are valid by themselves, those that are not, and their errors.

    `names` are those of the files.
    """

    names: list[str]
    documents: list[Document]
    invalid: list[Document]
    faults: list[Fault]
    unread: bool
    """Whether the contents of some files are unknown."""

    def refused(self) -> Refusals:
        """Return the invalid records; the caller adds others."""
        refused = Refusals(unread=self.unread)
        for document in self.invalid:
            refused.add(document)
        return refused


MOST_RECORDS = 10_000
"""In all files together."""


def read_contents(files: Iterable[tuple[str, bytes]]) -> Contents:
    """Read the records of files, given by name and content.

    Raises:
        InvalidInput: they contain too many records.
    """
    from jobauto_prefect.facade.apply.yaml_parser import Allowance

    allowance = Allowance()
    faults: list[Fault] = []
    read: list[Document] = []
    names: list[str] = []
    for name, content in files:
        names.append(name)
        documents, unread = read_documents(name, content, allowance)
        read += documents
        faults += unread
        if len(read) > MOST_RECORDS:
            message = f"hold more than {MOST_RECORDS} records; apply them in several parts"
            raise InvalidInput([Fault("/files", "records", message)])
    is_unread = bool(faults)
    valid: list[Document] = []
    invalid: list[Document] = []
    for document in read:
        judged = check_document(document, document.kind)
        faults += judged.faults
        (invalid if judged.faults else valid).append(document)
    return Contents(names, drop_twins(valid), invalid, list(dict.fromkeys(faults)), is_unread)
