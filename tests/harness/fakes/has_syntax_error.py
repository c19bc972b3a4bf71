exec("def broken(:")
