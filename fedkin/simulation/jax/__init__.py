"""JAX models: trained, scored and averaged by compiled programs. JAX is imported with the first of
its modules."""
