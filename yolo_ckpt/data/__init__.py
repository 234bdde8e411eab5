"""Data sets: samples that can be fetched, in the layout that Ultralytics trains on."""
