"""Verification of the reasoner: its closure of a sample of triples is compared with the closure that owlrl computes.

Known errors of owlrl are corrected, and each remaining difference gets a reason.
"""
