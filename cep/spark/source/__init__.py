"""What is read: files, live inputs and changes of the knowledge, as one stream that can be read again."""
