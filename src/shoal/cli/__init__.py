"""The command line: parses words, calls one function of the library, and prints what it returns."""
