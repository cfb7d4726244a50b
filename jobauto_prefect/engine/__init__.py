"""Prefect: applying plans, flow runs, the jobauto worker, compiled flows.

Prefect itself is imported only by the modules that drive it (`worker`, `applications`), and a
worker's modules import nothing of the ledger: what it holds of it, each worker would, too.
"""
