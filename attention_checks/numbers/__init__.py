"""How numbers and gradients are compared.

tensors.py    compares tensors, and says where they differ
tolerance.py  how far apart numbers may be that count as equal
autograd.py   differentiates what code gives, and looks into its backward pass
"""
