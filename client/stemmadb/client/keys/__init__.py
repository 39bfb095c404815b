"""Who the user is, and which spaces it knows by name: kept in the user's config directory."""
