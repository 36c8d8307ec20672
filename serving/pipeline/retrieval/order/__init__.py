"""The steps between fusion and the answer, each a class in a file of its own.

A new step is a file and a line in `steps.py`.
"""
