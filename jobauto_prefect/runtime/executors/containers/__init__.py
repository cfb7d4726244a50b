"""The executors Docker and Podman: a job is a container, by the Docker API that both speak."""
