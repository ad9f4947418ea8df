"""The input language: its syntax, and one module or package per dialect. They turn the text of a program into the rules
of a plan."""
