"""What the benchmarks of groups, labels and judges share: output and peers."""
