"""`python -m mrql` is the command `mrql`."""

from mrql.cli import main

main(prog_name="mrql")
