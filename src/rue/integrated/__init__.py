"""Methods that train networks of their own: one file each."""
