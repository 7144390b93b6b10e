"""`python -m laminar` is `laminar`."""

from laminar.cli import main

if __name__ == "__main__":
    main()
