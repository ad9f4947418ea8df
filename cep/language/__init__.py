"""The input language: its syntax, and one module or package per dialect. They turn text into rules of the plan."""
