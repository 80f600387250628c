"""The environment of a single-core process: one device, and no threads in matrix products (XLA's
and NumPy's).

Several processes with as many threads as cores spend a third of their time on context switches and
on busy waiting. The bits are the same.
"""

ONE_CORE = {
    "XLA_FLAGS": "--xla_force_host_platform_device_count=1 --xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",  # threads for programs
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
