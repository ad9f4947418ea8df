"""Reading and printing of programs. No other package handles single characters of a program."""
