"""Verification of the reasoner. It compares the reasoner's closure of a sample of triples with the closure that the
library owlrl computes.

Known errors of owlrl are corrected, and each remaining difference gets a reason.
"""
