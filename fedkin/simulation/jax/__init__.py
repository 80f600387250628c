"""JAX models: trained, scored and averaged by compiled programs. JAX is imported by the modules of
this package, not by the package itself."""
