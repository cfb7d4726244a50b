"""Prefect: applying plans, flow runs, the jobauto worker, compiled flows.

Prefect itself is imported only by the modules that drive it (`worker`, `applications`). The modules
of a worker import nothing of the ledger, to keep its memory small.
"""
