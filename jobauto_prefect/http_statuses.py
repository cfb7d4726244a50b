"""Errors and HTTP statuses: the facade's answers, and how its clients read them."""

from collections.abc import Mapping

from jobauto_prefect.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    JobautoError,
    KeyReused,
    NotAcceptable,
    NotFound,
    NotReady,
    PrefectFailed,
    RecordExists,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnknownEncoding,
)

STATUS: Mapping[type[JobautoError], int] = {
    InvalidInput: 400,
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    NotAcceptable: 406,
    KeyReused: 422,
    TooLarge: 413,
    UnknownEncoding: 415,
    TooManyRequests: 429,
    Conflict: 409,
    RecordExists: 412,
    PrefectFailed: 502,
    Unavailable: 503,
    NotReady: 503,
    JobautoError: 500,
}
"""The classes of errors, and the statuses of their answers."""

BUSY = frozenset({408, 425, 429})
"""Statuses below 500 that ask for a retry."""

REFUSALS: Mapping[int, type[JobautoError]] = {
    STATUS[kind]: kind for kind in (Unauthorized, Forbidden, NotFound, Conflict)
}
"""The error that an answer with one of these statuses raises."""


def status_of(error: JobautoError) -> int:
    """Return the HTTP status of an error: that of the nearest class in the tree."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
