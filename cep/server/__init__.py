"""`cep serve`: runs a program in a thread, and a web server that publishes the program's results."""
