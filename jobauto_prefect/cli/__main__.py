"""`python -m jobauto_prefect.cli`, which the service uses to start its own parts."""

from jobauto_prefect.cli import main

main()
