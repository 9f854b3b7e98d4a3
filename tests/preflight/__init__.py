"""What preflight finds."""
