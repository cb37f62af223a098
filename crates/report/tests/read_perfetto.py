"""Reads a trace for Perfetto by Perfetto's own messages, and prints what it holds as JSON."""

import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto


def unknown(message):
    """The fields of a message, and of those inside of it, that Perfetto does not have."""
    found = [f"{message.DESCRIPTOR.name}.{field.field_number}" for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                found += unknown(inner)
    return found


trace = perfetto.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

tracks, events = {}, []
categories, names, details = {}, {}, {}
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1
    data = packet.interned_data
    for known, new in (
        (categories, data.event_categories),
        (names, data.event_names),
        (details, data.debug_annotation_names),
    ):
        known.update({entry.iid: entry.name for entry in new})
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        tracks[track.uuid] = {
            "name": track.name or track.thread.thread_name or track.process.process_name,
            "parent": track.parent_uuid,
            "pid": track.process.pid or track.thread.pid,
            "tid": track.thread.tid,
        }
    if packet.HasField("track_event"):
        event = packet.track_event
        assert event.track_uuid in tracks
        events.append(
            {
                "track": event.track_uuid,
                "type": perfetto.TrackEvent.Type.Name(event.type),
                "time": packet.timestamp,
                "name": event.name or (names[event.name_iid] if event.name_iid else ""),
                "categories": [categories[iid] for iid in event.category_iids],
                "details": {details[d.name_iid]: d.uint_value for d in event.debug_annotations},
                "flows": list(event.flow_ids),
                "ends": list(event.terminating_flow_ids),
            }
        )
clock = trace.packet[0].clock_snapshot
json.dump(
    {
        "unknown": unknown(trace),
        "primary": perfetto.BuiltinClock.Name(clock.primary_trace_clock),
        "clocks": {c.clock_id: c.timestamp for c in clock.clocks},
        "default": trace.packet[0].trace_packet_defaults.timestamp_clock_id,
        "tracks": tracks,
        "events": events,
    },
    sys.stdout,
)
