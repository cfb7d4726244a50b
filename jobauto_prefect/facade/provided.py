"""The values that the credentials and blocks of a run template give to its jobs."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.definitions import to_text
from jobauto_prefect.definitions.credentials import defaults, is_secret
from jobauto_prefect.errors import PrefectUnavailable
from jobauto_prefect.ledger.records import Credential, RunTemplate
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.runtime import Layer

Blocks = Mapping[str, Mapping[str, Any]]
"""Name of a block (type slug/name) -> its data, secrets included."""


def provided_layer(template: RunTemplate, blocks: Blocks, box: SecretBox) -> Layer:
    """In the order of assignment, blocks after credentials; a later value replaces a former.

    Raises:
        KeyMissing: secret values were stored with another key.
        PrefectUnavailable: a block could not be read.
    """
    values, secrets = dict[str, str](), dict[str, str]()
    layers = [layer_of(one.credential, box) for one in template.assignments]
    layers += [_of_block(one, blocks) for one in template.blocks]
    for layer in layers:
        for name in (*layer.values, *layer.secrets):
            values.pop(name, None)
            secrets.pop(name, None)
        values |= layer.values
        secrets |= layer.secrets
    return Layer(values, secrets)


def layer_of(credential: Credential, box: SecretBox) -> Layer:
    """The values of one credential, and its type's defaults for what it says nothing of.

    Values of fields that the type does not have any more are left out.
    """
    fields = credential.credential_type.fields
    given = {**defaults(fields), **credential.values, **box.open(credential.secrets)}
    known = {one["keyword"]: is_secret(one) for one in fields if one["keyword"] in given}
    sealed = {name for name, secret in known.items() if secret or name in credential.secrets}
    return Layer(
        {name: given[name] for name in known if name not in sealed},
        {name: given[name] for name in sealed},
    )


def _of_block(assigned: Mapping[str, Any], blocks: Blocks) -> Layer:
    """All of it is secret: which fields of a foreign block are, only its program knows."""
    block = assigned["block"]
    if block not in blocks:
        raise PrefectUnavailable(f"the block {block} can't be read just now; ask again")
    found = {name: member_of(blocks[block], path) for name, path in assigned["env"].items()}
    return Layer({}, {name: to_text(value) for name, value in found.items() if value is not None})


def member_of(data: Any, path: str) -> Any:
    """The member of a block's data that a path names (`a.b` is b in a); None: there is none."""
    for part in path.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data
