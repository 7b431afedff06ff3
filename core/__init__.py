"""The words that every room uses: jobs, clusters, placements, settings, reports.

Pure: no Ray, torch, numba or sqlite.
"""
