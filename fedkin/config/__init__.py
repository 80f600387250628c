"""What a run, a comparison, a server and a peer can be told: reading, checking and spelling out."""
