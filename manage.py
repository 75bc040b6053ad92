#!/usr/bin/env python
from verification.manage import main

if __name__ == "__main__":
    main()
