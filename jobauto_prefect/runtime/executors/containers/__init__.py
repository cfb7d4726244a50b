"""The executors Docker and Podman: a job is a container, run through the Docker API of both."""
