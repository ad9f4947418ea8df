"""`cep serve`: a program that runs in a thread, and a web server for its results."""
