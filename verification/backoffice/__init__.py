"""The back office: what its pages share, who may do what, and who did what."""
