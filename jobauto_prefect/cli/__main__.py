"""`python -m jobauto_prefect.cli`: how the service starts its own parts."""

from jobauto_prefect.cli import main

main()
