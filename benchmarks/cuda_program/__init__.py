"""Read the CUDA program that XLA makes of a JAX function, on a machine that needs no GPU.

`device` compiles a function for a GPU that is not there, `hlo` reads the kernels and the bytes they move, `thunks`
reads the order in which XLA launches them, `count` adds both up, `programs` has the programs of shoal, and `tables`
prints.
"""
