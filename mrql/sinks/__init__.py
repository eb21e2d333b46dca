"""Where answers are printed, and the places that a command names for them."""
