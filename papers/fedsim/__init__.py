"""FedSim (Neurocomputing 2022)."""
