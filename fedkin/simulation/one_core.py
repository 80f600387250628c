"""Environment variables of a process that uses one core: one XLA device, and no threads in matrix
products (XLA's and NumPy's).

Several processes with as many threads each as there are cores spend a third of their time on
context switches and busy waiting. The variables do not change results, not even in the last bit.
"""

ONE_CORE = {
    "XLA_FLAGS": "--xla_force_host_platform_device_count=1 --xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",  # threads of XLA programs
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
