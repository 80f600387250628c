"""What several runs show together: repeated seeds, comparisons, statistics, advice, eps studies,
the non-IID index."""
