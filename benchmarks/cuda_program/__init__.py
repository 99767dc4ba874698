"""Read the CUDA program that XLA makes of a JAX function, on a machine that needs no GPU.

`device` compiles a function for a GPU that is not there, `hlo` and `thunks` read what XLA writes about it, `traffic`
counts the bytes of a kernel, `count` adds up launches, bytes and estimated times, `programs` has the programs of shoal,
`tables` prints, and `budgets` has the limits that tests hold.
"""
