"""A simulated Kubernetes cluster whose pods are processes of this machine."""
