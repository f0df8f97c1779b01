"""What computes: the interface that training uses (interface.py), the CPU and GPUs."""
