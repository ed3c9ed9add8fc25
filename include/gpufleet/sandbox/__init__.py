"""The embedded world: one process on loopback that plays node agents and a small cloud, and referees the planner.

Belongs here: machines, pods (each a real local process), what is sold, their state on disk, the HTTP door, and the
referee's own rules, worked out again from the catalogue so that a planner's mistake cannot hide.
Never here: a decision about who runs where or what to buy, anything of the planner, of its database or of Airflow.
"""
