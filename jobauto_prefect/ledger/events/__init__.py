"""Events, and what follows from them: deliveries to rules, actions, jobs."""
