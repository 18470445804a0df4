# Prints the rows of a folder of Parquet tables as Kestrel's JSON, as DuckDB reads them; then the types of columns.
import duckdb, json, os, sys

for name in sorted(os.listdir(sys.argv[1])):
    path = os.path.join(sys.argv[1], name)
    event = duckdb.execute("SELECT value FROM parquet_kv_metadata(?) WHERE key = 'event'", [path]).fetchone()[0].decode()
    rows = duckdb.execute("SELECT * FROM read_parquet(?) ORDER BY time", [path])
    columns = [(column[0], str(column[1])) for column in rows.description]
    for row in rows.fetchall():
        fields = {name: value for (name, _), value in zip(columns, row)}
        own = {name.removeprefix("args."): fields[name] for name, _ in columns[5:]}
        record = {name: fields[name] for name in ("time", "cpu", "pid", "tid", "comm")}
        if record["comm"] is None:
            del record["comm"]
        record.update(event=event, fields=own)
        print(json.dumps(record))
    print(json.dumps({"event": event, "types": dict(columns)}))
