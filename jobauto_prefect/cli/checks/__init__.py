"""The checks of `jobauto doctor`."""
