"""Bridges to other libraries; each module imports the library it bridges to, and none is imported by ferero itself."""
