"""The shard tables and the service's tables beside them: the only package that writes target rows.

Others use `routing.Plan`, `pool.TargetPool`, `part.Part`, `rows.PlaceWriter`, `chunk_fence` and `roles`.
"""
