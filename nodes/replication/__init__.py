"""nodes/replication"""
