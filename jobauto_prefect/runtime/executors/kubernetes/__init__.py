"""The Kubernetes executor: a job is a Kubernetes Job with one pod.

Pure: `manifest` (what is created), `pods` (what a pod's status means). `cluster` calls the API;
`job_objects`, `pod_watch`, `logs` and `pod_files` are the steps of a job, `execution` its whole
life, and `helm` installs the release an application needs.
"""
