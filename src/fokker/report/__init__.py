"""Pages and pictures made of a trace."""
