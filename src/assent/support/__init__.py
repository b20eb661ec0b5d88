"""What every other package uses: arrays, files, progress, errors, statistics."""
