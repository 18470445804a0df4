# Prints the events of a file of Perfetto's as Kestrel's JSON, by the schema that comes with the package `perfetto`, then what was lost.
import json, sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

trace = schema.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
names, categories, fields, tracks, lost = {}, {}, {}, {}, {}


def value(it):
    if it.dict_entries:
        return {entry.name: value(entry) for entry in it.dict_entries}
    kind = it.WhichOneof("value")
    if kind is None:
        return [value(one) for one in it.array_values]
    one = getattr(it, kind)
    return hex(one) if kind == "pointer_value" else one


for packet in trace.packet:
    for one in packet.interned_data.event_names:
        names[one.iid] = one.name
    for one in packet.interned_data.event_categories:
        categories[one.iid] = one.name
    for one in packet.interned_data.debug_annotation_names:
        fields[one.iid] = one.name
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        tracks.setdefault(track.uuid, {}).update({"pid": track.thread.pid, "tid": track.thread.tid})
        if track.thread.thread_name:
            tracks[track.uuid]["comm"] = track.thread.thread_name
    for cpu in packet.ftrace_stats.cpu_stats:
        lost[cpu.cpu] = cpu.dropped_events
    for event in packet.ftrace_events.event:
        assert packet.ftrace_events.cpu is not None
        kind = event.WhichOneof("event")
        record = {"time": event.timestamp, "cpu": packet.ftrace_events.cpu, "tid": event.pid, "event": "sched:" + kind}
        record["fields"] = {field.name: v for field, v in getattr(event, kind).ListFields()}
        for field in getattr(event, kind).DESCRIPTOR.fields:
            if getattr(event, kind).HasField(field.name):
                record["fields"][field.name] = getattr(getattr(event, kind), field.name)
        print(json.dumps(record))
    if packet.HasField("track_event"):
        event = packet.track_event
        record = {"time": packet.timestamp, "event": names[event.name_iid]}
        assert record["event"].rsplit(":", 1)[0] == categories[event.category_iids[0]]
        record.update(tracks[event.track_uuid])
        all = {one.name or fields[one.name_iid]: value(one) for one in event.debug_annotations}
        record["cpu"] = all.pop("cpu")
        record["fields"] = all
        print(json.dumps(record))
print(json.dumps({"lost": lost}))
