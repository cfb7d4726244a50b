"""What events start: automations, selectors, inputs and outputs of jobs."""
