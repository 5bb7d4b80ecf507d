"""Pages and figures of a trace."""
