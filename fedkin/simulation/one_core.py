"""Environment variables of a process that uses one core: one XLA device, and no threads in matrix
products (XLA's and NumPy's).

Several processes with as many threads each as there are cores spend a third of their time on
context switches and busy waiting. The variables do not change results, not even in the last bit.
"""

import os

_FLAGS = "--xla_force_host_platform_device_count=1 --xla_cpu_multi_thread_eigen=false"


def one_core_variables() -> dict[str, str]:
    """The variables, by name. XLA keeps this process's other flags, because they may change the
    last bits of results."""
    return {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {_FLAGS}".strip(),
        "NPROC": "1",  # threads of XLA programs
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
