"""The orchestrator's side of checkpoints: which saves a job has, which is good, how far it is, and what can go.

Here belongs reading, verifying and pruning over fsspec (a folder, s3, gcs, abfs), with the files and the rule of
completeness taken from `gpufleet.training.manifest`.
Never here: writing a save (the job does), deciding when one is due (`lifecycle`), or the database.
"""

from gpufleet.checkpoints.pruning import GRACE, Pruned, Removed, prune
from gpufleet.checkpoints.store import Save, list_saves, newest_complete, read_base, read_progress, sizes

__all__ = [
    "GRACE",
    "Pruned",
    "Removed",
    "Save",
    "list_saves",
    "newest_complete",
    "prune",
    "read_base",
    "read_progress",
    "sizes",
]
