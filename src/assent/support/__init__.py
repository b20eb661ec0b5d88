"""What all other packages build on: arrays, hashing, files, progress, errors, statistics, runtime."""
