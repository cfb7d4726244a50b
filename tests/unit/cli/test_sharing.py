"""Which companies' native jobs can read each other's files."""

import pytest

from jobauto_prefect.cli.checks.work_pools import Users, count_sharing


@pytest.mark.parametrize(
    ("companies", "workers", "expected"),
    [
        (set(), [], 0),
        ({"acme"}, [], 1),
        ({"acme", "globex"}, [], 2),
        ({"acme", "globex"}, [{}], 2),
        ({"acme", "globex"}, [{"": "jobs"}], 2),
        ({"acme", "globex"}, [{"acme": "a", "globex": "g"}], 1),
        ({"acme", "globex"}, [{"acme": "a", "": "jobs"}], 1),
        ({"acme", "globex", "umbrella"}, [{"acme": "a", "": "jobs"}], 2),
        ({"acme", "globex"}, [{"acme": "same", "globex": "same"}], 2),
        ({"acme", "globex"}, [{"acme": "a", "globex": "g"}, {}], 2),
    ],
)
def test_the_worst_worker_counts(companies: set[str], workers: list[Users], expected: int) -> None:
    assert count_sharing(companies, workers) == expected
