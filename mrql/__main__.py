"""`python -m mrql` is the command `mrql`."""

from mrql.cli.main import main

main(prog_name="mrql")
