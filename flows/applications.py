"""The flows of all applications, for `prefect.yaml` and for readers: `app_<id>` is one of them."""

from jobauto_prefect.engine.applications import __getattr__  # noqa: F401
