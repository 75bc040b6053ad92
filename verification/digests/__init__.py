"""What has happened in a workspace, for the members who want to know: news, digests."""
