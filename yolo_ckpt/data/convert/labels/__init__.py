"""Label formats: each module reads one into `items.Annotation`; `find` says which file belongs to which image."""
