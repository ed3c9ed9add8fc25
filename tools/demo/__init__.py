"""The embedded world on one machine: sandbox, controller and Airflow under one supervisor, and the demo's story.

Never here: anything the product needs elsewhere; this folder only starts, stops and tells.
"""
