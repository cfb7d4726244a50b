"""Exit codes for commands that did not start, as a POSIX shell returns them."""

NOT_EXECUTABLE = 126
NOT_FOUND = 127
