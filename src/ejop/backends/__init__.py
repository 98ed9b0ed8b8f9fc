"""The hot loops and the plan that chooses among them."""
