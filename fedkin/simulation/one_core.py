"""The environment of a process that has one core: one device, no threads in matrix products (XLA's
and NumPy's).

Several processes with as many threads as there are cores spend a third of their time on switches
and on waiting in loops. The bits are the same.
"""

ONE_CORE = {
    "XLA_FLAGS": "--xla_force_host_platform_device_count=1 --xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",  # threads for programs
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
