"""`cep serve`: runs a program in a thread, and a web server for its results."""
