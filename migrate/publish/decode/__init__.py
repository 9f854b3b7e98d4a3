"""Row events become canonical text, exactly: table maps, column codecs, JSON.

Others use `tablemap.TableMap`, `rows.RowDecoder`, `rows.RowEvent` and `row_json.JsonRows`.
"""
