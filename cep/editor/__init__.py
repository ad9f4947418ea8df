"""Support for editors: a language server (LSP) for programs of event rules."""
