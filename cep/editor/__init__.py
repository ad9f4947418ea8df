"""Help while a program is written: a server of the Language Server Protocol."""
