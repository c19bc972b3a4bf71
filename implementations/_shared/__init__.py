"""What several implementations of one framework share. No implementation itself."""
