"""The code under test, before it is a subject: what it is named and takes, and where it runs.

conventions.py  what the names of parts and parameters tell
signatures.py   the parameters of functions and modules
placement.py    where the code runs, and in which type; brings tensors there, and back
controlled.py   fixes random numbers, threads, and how exactly a GPU multiplies
"""
