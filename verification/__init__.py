import gc

__version__ = "1.1.0"

# Modules stay loaded, and a large request makes thousands of rows. With Django's many
# objects the default threshold makes the collector look through all of them again and
# again. Set here, because each process loads this package first.
gc.set_threshold(50_000, 20, 100)
