"""`python -m cep`: the same as the command `cep`."""

from cep.cli import main

if __name__ == "__main__":
    main()
