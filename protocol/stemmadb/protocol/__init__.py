"""What is right, without I/O: the model, the wire and the errors that server and client share."""
