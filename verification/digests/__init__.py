"""News and digests of a workspace, for the members who have chosen them."""
