"""Comparison of our closure with owlrl's: a sample, owlrl with corrections for its known errors, the differences."""
