"""Pictures, plots and tables. Reads run folders and arrays only; knows neither engine nor families."""
