"""What shows Fokker at work: demos, the papers' experiments, films of chains, classic posteriors."""
