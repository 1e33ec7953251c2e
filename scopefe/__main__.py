"""``python -m scopefe``."""

from scopefe.cli.main import main

if __name__ == "__main__":
    main()
