"""A trained policy as code that needs neither shoal nor JAX: one list of array operations, written in several formats.

`tracing` reads a function of JAX as a `program.Program`, `python_code` writes that as NumPy or torch code, and
`onnx_graph` as an ONNX graph.
"""
