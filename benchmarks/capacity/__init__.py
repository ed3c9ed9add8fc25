"""A month of work on bought capacity: what each way to buy costs, and which promises it breaks."""
