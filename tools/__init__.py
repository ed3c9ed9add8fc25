"""What builds, starts and shows the project; not part of the product."""
