"""Events that start jobs: automations, selectors, inputs and outputs of jobs."""
