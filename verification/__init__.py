import gc

__version__ = "1.1.0"

# Modules stay loaded, and a large request makes thousands of rows. The default
# threshold makes the collector scan Django's many objects again and again. It is set
# here, because each process loads this package first.
gc.set_threshold(50_000, 20, 100)
