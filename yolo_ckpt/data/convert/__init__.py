"""`yolo-ckpt convert`: images and labels as people have them, to a YOLO data set.

From below: `problems`, `request` (what was asked), `picture`, `window`, `geometry`, `outlines` (records, arithmetic);
`plain`, `tiff`, `dicom` (readers); `labels/` (one module per format); `tiles`, `rows` (cutting); `job` (one source
file, in a worker); `pool`, `split`, `naming`, `writer`, `report`, `run` (the whole).
"""
