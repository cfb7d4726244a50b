"""The executors Native, Docker, Podman and Kubernetes, and those from other packages."""
