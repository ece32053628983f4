"""What the data is: contracts, and the code that writes, checks and reads datasets."""
