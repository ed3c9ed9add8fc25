"""Complete jobs to run and to copy from: training on NumPy (`digits`), a replica (`serve`), PyTorch (`torch_ddp`).

Here belongs what a team could have written with the public names of `gpufleet.training` alone.
Never here: a framework imported by anything but the example that shows it.
"""

import os

# Before NumPy is first imported: the order in which threads add up is not the same from run to run,
# and these examples end with the same bits every time.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
