"""Pictures made from a seed: circuit boards and rolled metal, with faults."""
