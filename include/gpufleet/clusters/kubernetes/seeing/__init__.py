"""Raw objects of the API, read into facts. Pure: the same objects, the same facts.

Belongs here: what a label, a condition or a taint means. Never here: a call to an API, a clock, or a guess that makes a
GPU of nothing; an object that is odd yields less, and never an error.
"""
