"""The executors Native, Docker, Podman and Kubernetes, and those of other packages."""
