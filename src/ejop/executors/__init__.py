"""Who walks the blocks of a computation."""
