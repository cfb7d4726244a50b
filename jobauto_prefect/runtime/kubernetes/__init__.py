"""The Kubernetes executor: a job is a Kubernetes Job with one pod.

Pure: `manifest` and `secrets` (what is created), `pods` (what a pod's status means), `logs` (each
line once). `cluster` speaks to the API, by `configuration` and `answers`; `creation`, `watching`,
`following`, `copying` and `removal` are the steps of a job, `execution` its whole way, and `helm`
installs what the application wants before.
"""
