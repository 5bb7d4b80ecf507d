"""`python -m fokker` is the command `fokker`."""

from fokker.cli import main

main()
