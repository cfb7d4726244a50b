"""What a job needs to start: its environment, command and files."""
