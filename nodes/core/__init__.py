"""nodes/core"""
