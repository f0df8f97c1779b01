"""What a number is: vectors and the order of sums, matrix products, elementary functions, softmax, random numbers."""
