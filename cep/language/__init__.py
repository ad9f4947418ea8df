"""The input language: its syntax, and one module or package per dialect. These modules turn the text of a program into
the rules of a plan."""
